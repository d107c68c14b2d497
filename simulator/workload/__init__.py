"""What a parallel job computes, keeps and sends: closed forms of a transformer on a layout."""
