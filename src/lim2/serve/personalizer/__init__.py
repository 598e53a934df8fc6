"""Azure Personalizer's protocol, in its three published dialects."""
