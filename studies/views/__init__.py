"""Which pair of views learns the best sentence vectors (Simoulin & Crabbé 2021, Tables 1 to 3)?"""
