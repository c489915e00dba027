-- SPDX-License-Identifier: MIT
--- Writes the Lua sources and the pages under the given folders as one C file, to standard output:
-- `luajit scripts/embed.lua lua recipes docs > build/embedded.c`.
--
-- Each file becomes an array of string literals, because C promises no more than 4095 characters in
-- one; the loader reads them piece by piece (lua/embed.c). A file under lua/ is named as `require`
-- sees it (ridge/nn/linear.lua), others by their path (recipes/landscape.lua).

local PIECE = 2000 -- bytes of source in one literal

--- The Lua and Markdown files below a folder, sorted; READMEs say where things are in a tree.
local function find(folder)
  local pipe = assert(io.popen((
    "find '%s' -type f '(' -name '*.lua' -o -name '*.md' ! -name README.md ')'"):format(folder)))
  local files = {}
  for path in pipe:lines() do files[#files + 1] = path end
  pipe:close()
  table.sort(files)
  return files
end

local ESCAPE = { ['\\'] = '\\\\', ['"'] = '\\"', ['\n'] = '\\n', ['\t'] = '\\t', ['?'] = '\\?' }

--- A C string literal; three octal digits cannot run into what follows.
local function literal(bytes)
  return '"' .. bytes:gsub('[%c"\\?\128-\255]', function(c)
    return ESCAPE[c] or ('\\%03o'):format(c:byte())
  end) .. '"'
end

local out = {
  '/* Written by scripts/embed.lua: Lua sources and pages as text. */',
  '#include "../lua/host.h"',
  '',
}
local entries = {}
for _, folder in ipairs(arg) do
  for _, path in ipairs(find(folder)) do
    local file = assert(io.open(path, 'rb'))
    local source = file:read '*a'
    file:close()
    assert(not source:find('%z'), path .. ' holds a zero byte')
    local name = path:gsub('^lua/', '')
    entries[#entries + 1] = { name = name, symbol = 'file_' .. #entries }
    out[#out + 1] = ('static const char *const file_%d[] = {'):format(#entries - 1)
    for at = 1, #source, PIECE do
      out[#out + 1] = '  ' .. literal(source:sub(at, at + PIECE - 1)) .. ','
    end
    out[#out + 1] = '  0,\n};'
  end
end
table.sort(entries, function(a, b) return a.name < b.name end)
out[#out + 1] = 'const rg_embedded rg_embedded_files[] = {'
for _, entry in ipairs(entries) do
  out[#out + 1] = ('  { "%s", %s },'):format(entry.name, entry.symbol)
end
out[#out + 1] = '  { 0, 0 },\n};'
io.write(table.concat(out, '\n'), '\n')
