"""Any encoder to scores: the SentEval protocol, reports and figures."""
