"""Sessions as an agent uses them: few tools with short answers, over the Model Context Protocol."""
