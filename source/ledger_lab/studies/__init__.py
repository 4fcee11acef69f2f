"""Many runs that answer one question: studies, searches, scaling, and the choice of a machine."""
