# Converts links of our pages for Doxygen. Removes headings from links to pages, and turns links to
# other files, for example programs, into text. Removes marks for our tests.
/^<!-- .* -->$/d
s/\]\(([^):]*\.md)#[^)]*\)/](\1)/g
s/([^!]|^)\[([^]]*)\]\(#[^)]*\)/\1\2/g
:next
s/([^!]|^)\[([^]]*)\]\(([^):]*[^d):]|[^):]*[^m]d|[^):]*[^.]md)\)/\1\2/
t next
