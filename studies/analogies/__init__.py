"""Analogies of words, phrases and sentences in one vector space (UNI: Li & Zhao 2021).

python -m studies.analogies build --cache runs/trees/brown --output runs/analogies/data
python -m studies.analogies run MODEL [A+B ...] --questions runs/analogies/data/questions.tsv
"""
