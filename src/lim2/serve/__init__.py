"""The HTTP service: Azure Personalizer's protocol and lim2's own, over bandits that learn from their logs."""
