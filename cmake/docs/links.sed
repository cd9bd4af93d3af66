# Links of our pages as Doxygen knows them: to pages without their headings; others, such as to a program, are
# text. Marks for our tests are left out.
/^<!-- .* -->$/d
s/\]\(([^):]*\.md)#[^)]*\)/](\1)/g
s/([^!]|^)\[([^]]*)\]\(#[^)]*\)/\1\2/g
:next
s/([^!]|^)\[([^]]*)\]\(([^):]*[^d):]|[^):]*[^m]d|[^):]*[^.]md)\)/\1\2/
t next
