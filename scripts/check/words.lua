-- SPDX-License-Identifier: MIT
-- words: comments, documents and messages say a thing by the name that the field has for it, so
-- that whoever searches for that name finds it.
--
-- It reads the comments and strings of C, CUDA and Lua, and whole lines of shell scripts and
-- Markdown.  A phrase may go on in the next line.  The phrases are in dialect.lua.

package.path = "scripts/check/?.lua;" .. package.path
local tree = require "tree".open(arg[1])
local DIALECT = require "dialect"
local left_out = {}
for _, path in ipairs(tree:matching("^scripts/check/dialect%.lua$", "^tests/check/words_spec%.lua$",
  "^results/", "^CHANGELOG%.md$", "^LICENSE$")) do left_out[path] = true end

-- Behind the closing quote of a string that began at `from`.
local function string_end(line, from)
  local at = line:gsub("\\.", "  "):find(line:sub(from, from), from + 1, true)
  return at and at + 1 or #line + 1
end

-- The text of one line of code.  open: what closes the comment or long string the line begins in;
-- returned for the next line.  line_mark: what a comment to the end of the line begins with.
local function text_of(line, open, line_mark, block_open, block_close)
  local found, at = {}, 1
  while at <= #line do
    if open then
      local close, behind = line:find(open, at, true)
      found[#found + 1] = line:sub(at, (close or #line + 1) - 1)
      if not close then return table.concat(found, " "), open end
      open, at = nil, behind + 1
    else
      local mark = line:find("[\"'/%-%[]", at)
      if not mark then break end
      local rest = line:sub(mark, mark + 3)
      if rest:sub(1, #block_open) == block_open then
        open, at = block_close, mark + #block_open
      elseif rest:sub(1, 2) == line_mark then
        found[#found + 1] = line:sub(mark + 2)
        break
      elseif block_close == "]]" and rest:sub(1, 2) == "[[" then
        open, at = "]]", mark + 2
      elseif rest:find("^[\"']") then
        local behind = string_end(line, mark)
        found[#found + 1] = line:sub(mark + 1, behind - 2)
        at = behind
      else
        at = mark + 1
      end
    end
  end
  return table.concat(found, " "), open
end

-- All text of a file in lower case, one blank between lines, and the line of each line's first
-- byte.
local function read(path)
  local is_c, is_lua = path:find("%.[ch]$") or path:find("%.cuh?$"), path:find("%.lua$")
  local pieces, starts, length, open = {}, {}, 0, nil
  for number, line in tree:lines(path) do
    local text = line
    if is_c then
      text, open = text_of(line, open, "//", "/*", "*/")
    elseif is_lua then
      text, open = text_of(line, open, "--", "--[[", "]]")
    end
    text = text:gsub("^[%s*#>-]+", ""):gsub("%s+", " "):gsub(" $", ""):lower()
    if text ~= "" then
      starts[#starts + 1] = { length + 1, number }
      pieces[#pieces + 1] = text
      length = length + #text + 1
    end
  end
  return table.concat(pieces, " "), starts
end

local function line_at(starts, at)
  for i = #starts, 1, -1 do
    if starts[i][1] <= at then return starts[i][2] end
  end
end

for _, path in ipairs(tree:matching("%.[ch]$", "%.cuh?$", "%.lua$", "%.md$", "%.sh$", "%.mk$",
  "^scripts/[^/.]+$", "^Makefile$")) do
  if not left_out[path] then
    local text, starts = read(path)
    for _, entry in ipairs(DIALECT) do
      local at = 1
      while true do
        local first, last = text:find("%f[%w]" .. entry[1] .. "%f[%W]", at)
        if not first then break end
        if not (entry.unless and text:find("^" .. entry.unless, last + 1)) then
          tree:fail(path, line_at(starts, first), "%q: say %s", text:sub(first, last), entry[2])
        end
        at = last + 1
      end
    end
  end
end

tree:finish()
