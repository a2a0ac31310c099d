(sequential (task :description "Fine") (script :argv ("fail")))
