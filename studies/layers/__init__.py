"""What the layers of an encoder know: every layer and pooling on every task (Ma et al. 2019, "EMP")."""
