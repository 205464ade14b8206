"""Who asks, and what they may do: authentication, impersonation, authorization, certificates, tokens and reviews."""
