; Sums up the files of a folder: they are listed and read by tools, each is summed up by itself (map), and the
; summaries are joined one after the other (reduce).
;
;   weft run examples/summarize_folder.sexp folder=docs/explanation/decisions
;
; Run it again after a file was edited: only what follows from that file is asked for again.

(deftask summarize ((text string))
  :system "You sum up a text in one short sentence, in plain words. Begin with the subject, never with \"This text\".

Example:
# Cache pages
Pages are kept for an hour, since making one takes two seconds and they seldom change.
{\"summary\": \"Pages are cached for an hour because they are slow to make and seldom change.\"}"
  :instructions "{{text}}"
  :schema "schemas/summary.json")

(deftask add-to-digest ((digest string) (summary string))
  :system "You keep a digest: one paragraph that says the main points. You get the digest so far and a new point, and answer with the digest that has both, short and without repeating anything.

Example:
Digest: Pages are cached for an hour.
New point: Images are cached for a day because they never change.
{\"digest\": \"Pages are cached for an hour, images for a day.\"}"
  :instructions "Digest: {{digest}}
New point: {{summary}}"
  :schema "schemas/digest.json")

(template summarize-folder ((folder string))
  :returns "object"
  (let* ((beginning (lambda (text) (substring text 0 (min 1000 (string-length text)))))
         (is-file (lambda (entry) (= (get entry "kind") "file")))
         (path-of (lambda (entry) (string-append folder "/" (get entry "name"))))
         (paths (map path-of (filter is-file (get (system:list_directory :path folder) "entries"))))
         (files (get (system:read_files :paths paths) "files"))
         (summaries (map (lambda (file) (get (summarize (beginning (get file "content"))) "summary")) files))
         (join (lambda (digest summary) (get (add-to-digest digest summary) "digest"))))
    (dict :summaries (map (lambda (path summary) (dict :path path :summary summary)) paths summaries)
          :digest (reduce join (first summaries) (rest summaries)))))

(task :ref "summarize-folder" :inputs ((folder)))
