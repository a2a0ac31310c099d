; A director writes a function, a script tests it, and an evaluator says what was wrong; until the test passes or
; three rounds are over. Whether it passes is for the script to say, and not for a model.
;
;   weft run examples/until_tests_pass.sexp

(define wanted "shorten(text, width) returns the text; of one longer than width, its first width - 3 characters and '...'.")

(define test "
for text, width, expected in [('tea', 5, 'tea'), ('breakfast', 5, 'br...'), ('abc', 3, 'abc')]:
    got = shorten(text, width)
    assert got == expected, f'shorten({text!r}, {width}) gave {got!r} and must give {expected!r}'
")

(deftask write-function ((wanted string) (remark string))
  :system "You write one Python function. Say in \"plan\" in a few words how it works; if there is a remark on an earlier try, what has to be different. Then write the whole function in \"code\", without comments.

Examples:
clamp(x, low, high) returns x limited to the range low to high.
{\"plan\": \"The larger of x and low, then the smaller of that and high.\", \"code\": \"def clamp(x, low, high):\\n    return min(max(x, low), high)\\n\"}
middle(items) returns the middle item.
Remark: middle([1, 2, 3]) gave 3 and must give 2
{\"plan\": \"Not the last item: the index is len(items) // 2.\", \"code\": \"def middle(items):\\n    return items[len(items) // 2]\\n\"}"
  :instructions "{{wanted}}
{{remark}}"
  :schema "schemas/function.json")

(define (last-line text) (last (string-split (string-trim text) "\n")))

(director-evaluator-loop
  :description "Write a function until its test passes"
  :max-iterations 3
  :director (write-function wanted (if evaluation_feedback evaluation_feedback ""))
  :script (script :description "Test it" :argv ("python3" "-c" "{{director_result.code}}{{test}}") :timeout 10)
  :evaluator
    (if (= script_exit_code 0)
        (dict :success true :feedback "")
        (dict :success false
              :feedback (string-replace (last-line script_errors) "AssertionError: " "Remark: "))))
