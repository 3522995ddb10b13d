# Every target is a command of make.py, which sets up its own virtual environment.
.PHONY: lab demo test test-browser verify versions build format
lab demo test test-browser verify versions build format:
	@python3 make.py $@
