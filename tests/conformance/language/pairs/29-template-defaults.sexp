(deftask review (code (depth integer 3)) :description "Review {{code}} {{depth}} deep")
(review "x")
