-- SPDX-License-Identifier: MIT
--- The documentation as web pages: `luajit scripts/site.lua PAGES OUT`, which `make docs` calls.
--
-- PAGES is what `ridge docs --markdown` wrote. Each page becomes a static file with its navigation;
-- search is a script and an index beside them, so that it works from a disk, without a server.
-- Markdown is converted by cmark-gfm.

package.path = 'lua/?.lua;lua/?/init.lua;' .. package.path
local pages = require 'ridge.docs.pages'

local from, to = arg[1], arg[2]
assert(from and to, 'usage: luajit scripts/site.lua PAGES OUT')

if os.execute 'command -v cmark-gfm >/dev/null' ~= 0 then
  io.stderr:write 'make docs: cmark-gfm is missing: apt-get install cmark-gfm\n'
  os.exit(1)
end

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function lines_of(command)
  local list, pipe = {}, assert(io.popen(command))
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

local function read(path)
  local file = assert(io.open(path, 'rb'))
  local text = file:read '*a'
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, 'wb'))
  assert(file:write(text))
  assert(file:close())
end

local ENTITIES = { ['&'] = '&amp;', ['<'] = '&lt;', ['>'] = '&gt;', ['"'] = '&quot;' }
local function escaped(text) return (text:gsub('[&<>"]', ENTITIES)) end

-- -- Pages ----------------------------------------------------------------------------------------

local order, list = {}, {}
for rank, kind in ipairs(pages.KINDS) do order[kind[1]] = rank end
for _, path in ipairs(lines_of('cd ' .. quoted(from) .. " && find . -name '*.md' | sort")) do
  local name = path:match '^%./(.*)%.md$'
  list[#list + 1] = pages.page(name, read(from .. '/' .. name .. '.md'))
end
local FIRST = { ['tutorial/first-hour'] = true } -- before the rest of its kind
table.sort(list, function(a, b)
  if a.kind ~= b.kind then return (order[a.kind] or 9) < (order[b.kind] or 9) end
  if FIRST[a.name] ~= FIRST[b.name] then return FIRST[a.name] == true end
  return a.title:lower() < b.title:lower()
end)

local function id_of(title)
  return (title:lower():gsub('&%w+;', ''):gsub('[^%w_.-]+', '-'):gsub('^%-+', ''):gsub('%-+$', ''))
end

local function converted(page)
  local html = table.concat(lines_of(('cmark-gfm -e table -t html %s'):format(
    quoted(('%s/%s.md'):format(from, page.name)))), '\n')
  assert(html:find '<h1', page.name .. ': cmark-gfm gave nothing')
  local seen = {}
  html = html:gsub('<h([2-4])>(.-)</h%1>', function(level, title)
    local id = id_of(title:gsub('<.->', ''))
    seen[id] = (seen[id] or 0) + 1
    if seen[id] > 1 then id = id .. '-' .. seen[id] end
    return ('<h%s id="%s"><a href="#%s">%s</a></h%s>'):format(level, id, id, title, level)
  end)
  html = html:gsub('href="([%w_./-]+)%.md(#?[^"]*)"', 'href="%1.html%2"')
  html = html:gsub('<table>', '<div class="wide"><table>'):gsub('</table>', '</table></div>')
  -- what was typed stands out from what is printed, and what varies from what does not
  html = html:gsub('<pre><code class="language%-(%w+)">(.-)</code></pre>', function(kind, code)
    code = ('\n' .. code):gsub('\n(%$ [^\n]*)', '\n<b>%1</b>'):gsub('\n(&gt;&gt; [^\n]*)',
      '\n<b>%1</b>'):gsub('\n(%.%. [^\n]*)', '\n<b>%1</b>'):gsub('\n(&gt; [^\n]*)', '\n<b>%1</b>')
    if kind ~= 'console' and not code:find '\n<b>' then return nil end
    return '<pre><code>' .. code:sub(2):gsub('‹(.-)›', '<var>%1</var>') .. '</code></pre>'
  end)
  return html
end

local function up(page) return page and '../' or '' end

local function navigation(current)
  local out = {}
  for _, kind in ipairs(pages.KINDS) do
    local inside = {}
    for _, page in ipairs(list) do
      if page.kind == kind[1] then
        inside[#inside + 1] = ('<li><a href="%s%s.html"%s>%s</a></li>'):format(up(current),
          page.name, page == current and ' aria-current="page"' or '', escaped(page.title))
      end
    end
    out[#out + 1] = ('<details%s><summary>%s</summary><ul>\n%s\n</ul></details>'):format(
      current and current.kind == kind[1] and ' open' or '', kind[2]:match '^[^:]+',
      table.concat(inside, '\n'))
  end
  return table.concat(out, '\n')
end

local FRAME = [[
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%s</title>
<link rel="stylesheet" href="%sstyle.css">
<script defer src="%sindex.js"></script>
<script defer src="%ssearch.js"></script>
</head>
<body data-up="%s">
<header><a class="home" href="%sindex.html">ridge</a> <a class="to-pages" href="#pages">Pages</a>
<form role="search" hidden><input type="search" aria-label="Search" placeholder="Search"
 autocomplete="off"></form></header>
<nav id="pages" aria-label="Pages">
%s
</nav>
<main>
<div id="found" hidden></div>
<article>
%s
</article>
</main>
</body>
</html>
]]

local function framed(title, page, body)
  local at = up(page)
  return FRAME:format(escaped(title), at, at, at, at, at, navigation(page), body)
end

-- -- The index ------------------------------------------------------------------------------------

local function json(text)
  return '"' .. text:gsub('[%c"\\<\127]', function(c) return ('\\u%04x'):format(c:byte()) end)
    .. '"'
end

-- The words of a text, each once.
local function words_of(text)
  local seen, out = {}, {}
  for word in text:lower():gmatch '[%w_.%-]+' do
    word = word:gsub('^[.%-]+', ''):gsub('[.%-]+$', '')
    if #word > 1 and not seen[word] then
      seen[word] = true
      out[#out + 1] = word
    end
  end
  return table.concat(out, ' ')
end

local rows = {}
for _, page in ipairs(list) do
  local seen = {}
  for _, section in ipairs(pages.sections(page)) do
    local id = section.level > 1 and id_of(section.title) or ''
    seen[id] = (seen[id] or 0) + 1
    if id ~= '' and seen[id] > 1 then id = id .. '-' .. seen[id] end
    rows[#rows + 1] = ('[%s,%s,%s,%s]'):format(json(page.name .. '.html' .. (id ~= '' and '#' .. id
      or '')), json(page.title), json(section.level > 1 and section.title or ''),
      json(words_of(section.text)))
  end
end

-- -- Files ----------------------------------------------------------------------------------------

for _, kind in ipairs(pages.KINDS) do
  assert(os.execute(('mkdir -p %s'):format(quoted(to .. '/' .. kind[1]))) == 0)
end
for _, page in ipairs(list) do
  write(('%s/%s.html'):format(to, page.name), framed(page.title .. ' - ridge', page,
    converted(page)))
end

local body = { '<h1>ridge</h1>\n<p>Find where neural networks run fast, and tell the truth about '
  .. 'it. Begin with <a href="tutorial/first-hour.html">the first hour</a>.</p>' }
for _, kind in ipairs(pages.KINDS) do
  body[#body + 1] = ('<h2 id="%s">%s</h2>\n<ul class="pages">'):format(kind[1], escaped(kind[2]))
  for _, page in ipairs(list) do
    if page.kind == kind[1] then
      body[#body + 1] = ('<li><a href="%s.html">%s</a></li>'):format(page.name, escaped(page.title))
    end
  end
  body[#body + 1] = '</ul>'
end
write(to .. '/index.html', framed('ridge', nil, table.concat(body, '\n')))
write(to .. '/index.js', 'const PAGES = [\n' .. table.concat(rows, ',\n') .. '\n];\n')
for _, name in ipairs { 'style.css', 'search.js' } do
  write(('%s/%s'):format(to, name), read('scripts/site/' .. name))
end
print(('%s/index.html: %d pages'):format(to, #list))
