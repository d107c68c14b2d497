"""What schemes share whose groups are pipelines that continue without some nodes."""
