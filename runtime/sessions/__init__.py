"""The life of one session: created, found healthy or not, named, told who it is, torn down."""
