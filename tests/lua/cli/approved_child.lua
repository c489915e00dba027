-- SPDX-License-Identifier: MIT
-- Runs commands one after the other, as typed, in one process: what each printed on both streams in
-- one text, and its status.  arg: a file with a command in each line (words as a shell splits them,
-- without anything else of a shell), and the file the texts go to.

-- An error names the line of the user's; as in the program itself, there is none here.
if ... ~= true then
  local file = assert(io.open(arg[0]))
  local text = file:read '*a'
  file:close()
  return assert(loadstring(text, '@lua/ridge/approved_child.lua'))(true)
end

local main = require 'ridge.cli.main'

local function words_of(line)
  local words, i = {}, 1
  while i <= #line do
    local quote = line:match("^['\"]", i)
    local stop
    if quote then
      stop = assert(line:find(quote, i + 1, true), line)
      words[#words + 1] = line:sub(i + 1, stop - 1)
      i = stop + 1
    elseif line:sub(i, i) == ' ' then
      i = i + 1
    else
      stop = (line:find(' ', i, true) or #line + 1) - 1
      words[#words + 1] = line:sub(i, stop)
      i = stop + 1
    end
  end
  return words
end

-- Lua's own writes to C's stdout.
function _G.print(...)
  local words = {}
  for i = 1, select('#', ...) do words[i] = tostring((select(i, ...))) end
  io.stdout:write(table.concat(words, '\t'), '\n')
end

local out = assert(io.open(arg[2], 'w'))
for line in io.lines(arg[1]) do
  if line:find '^#' or line == '' then
    out:write(line, '\n')
  else
    local words = words_of(line)
    words[0] = 'ridge'
    out:write('$ ridge ', line, '\n')
    local stdout, stderr = io.stdout, io.stderr
    io.stdout, io.stderr = out, out -- luacheck: ignore 122
    local ok, status = pcall(main, words)
    io.stdout, io.stderr = stdout, stderr -- luacheck: ignore 122
    if not ok then out:write('raised: ', tostring(status), '\n') end
    if status ~= 0 then out:write('[', tostring(status), ']\n') end
    out:write '\n'
  end
end
out:close()
