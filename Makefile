# Every target is a command of make.py, which sets up its own virtual environment.
.PHONY: lab hub tutor demo lint quick types ledger test coverage test-browser verify unit versions build site release format constraints
lab hub tutor demo lint quick types ledger test coverage test-browser verify versions build site release format constraints:
	@python3 make.py $@

unit:
	@python3 make.py unit $(UNIT) $(EXERCISE)
