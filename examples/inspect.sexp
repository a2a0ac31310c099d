; Looks at the files of this folder with three scripts at the same time, and needs no model. Each script is a stored
; step; one of them fails, and the program catches that.
;
;   weft run examples/inspect.sexp

(define (lines result) (string-split (string-trim result.content) "\n"))

(define found
  (parallel
    (script :description "Count the Python files" :shell "find . -name '*.py' -not -path './.*' | wc -l")
    (script :description "Find the largest ones"
      :shell "find . -name '*.py' -not -path './.*' -exec wc -c {} + | grep -v ' total$' | sort -rn | head -3")
    (try (script :description "Ask for the release" :argv ("cat" "RELEASE"))
         (catch failure (dict :content "not released yet")))))

(dict :python_files (json-parse (string-trim (get-in found (list 0 "content"))))
      :largest_files (map (lambda (line) (last (string-split line " "))) (lines (get-in found (list 1))))
      :release (get-in found (list 2 "content")))
