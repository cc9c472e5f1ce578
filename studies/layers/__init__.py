"""Every layer and pooling of an encoder, scored on every task (Ma et al. 2019, "EMP")."""
