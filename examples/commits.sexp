; weft run examples/commits.sexp        sorts the last five commits of a repository by what they change
(deftask sort-commit ((subject string))
  :system "Sort a commit by its subject. code: the program. tests: its tests. docs: pages for readers.
Examples: 'parser: accept tabs' code, 'README: fix a link' docs, 'queue: retry on errors' code."
  :instructions "{{subject}}"
  :schema "{\"enum\": [\"code\", \"tests\", \"docs\"]}")
(define log (script :description "Read the log" :argv ("git" "log" "-5" "--format=%s")))
(map (lambda (subject) (dict :commit subject :kind (get (sort-commit subject) "parsedContent")))
     (string-split (string-trim log.content) "\n"))
