-- SPDX-License-Identifier: MIT
--- A page as text of a terminal: paragraphs and tables in its width, code as it stands.
--
-- It knows the Markdown that our pages are written in: headings, paragraphs, lists, tables, fenced
-- and indented code, `code`, **bold**, links.

local colour = require 'ridge.show.colour'
local columns = require 'ridge.show.columns'
local pages = require 'ridge.docs.pages'

local M = {}

local WIDEST = 96 -- longer lines are hard to read

-- A link to a page becomes the name that `ridge docs` knows it by.
local function link(kind)
  return function(text, target)
    local page = target:match '^([%w_./-]+)%.md'
    if not page then return target:find '^https?:' and ('%s <%s>'):format(text, target) or text end
    page = page:gsub('^%./', '')
    local up = page:match '^%.%./(.*)$'
    local name = up or kind and not page:find '/' and kind .. '/' .. page or page
    return ('%s (%s)'):format(text, name)
  end
end

-- What stands between backquotes is nothing but that; the rest has marks.
local function inline(text, kind)
  local out, at = {}, 1
  local function marked(piece)
    piece = piece:gsub('%[([^%]]+)%]%(([^)]+)%)', link(kind))
    piece = piece:gsub('%*%*(.-)%*%*', function(t) return colour.paint('bold', t) end)
    return (piece:gsub('\\([^%w])', '%1'))
  end
  -- a link whose text is code is a link first
  text = text:gsub('%[`([^`]+)`%](%b())', '[%1]%2')
  while true do
    local from, to, inside = text:find('`([^`]+)`', at)
    if not from then break end
    out[#out + 1] = marked(text:sub(at, from - 1))
    out[#out + 1] = colour.paint('key', inside)
    at = to + 1
  end
  out[#out + 1] = marked(text:sub(at))
  return table.concat(out)
end

-- -- Tables -------------------------------------------------------------------------------------

local function cells_of(line, kind)
  local cells = {}
  line = line:gsub('^|', ''):gsub('|%s*$', ''):gsub('\\|', '\1')
  for cell in (line .. '|'):gmatch '(.-)|' do
    cells[#cells + 1] = inline(cell:match '^%s*(.-)%s*$':gsub('\1', '|'), kind)
  end
  return cells
end

-- The last column takes what is left of the width, in as many lines as it needs.
local function table_lines(out, rows, width)
  local widths = {}
  for _, row in ipairs(rows) do
    for i = 1, #row - 1 do widths[i] = math.max(widths[i] or 0, colour.width(row[i])) end
  end
  local left = 0
  for i, w in ipairs(widths) do
    widths[i] = math.min(w, 40)
    left = left + widths[i] + 2
  end
  for n, row in ipairs(rows) do
    local line = {}
    for i = 1, #row - 1 do
      line[i] = row[i] .. (' '):rep(math.max(widths[i] - colour.width(row[i]), 0))
    end
    local head = table.concat(line, '  ')
    if #line > 0 then head = head .. '  ' end
    local last = columns.wrap(row[#row] or '', math.max(width - left, 24), (' '):rep(left))
    local text = (head .. last):gsub('%s+$', '')
    if text ~= '' then out[#out + 1] = n == 1 and colour.paint('dim', text) or text end
  end
end

-- -- Blocks ---------------------------------------------------------------------------------

local function is_plain(line)
  return line:find '%S' and not (line:find '^#' or line:find '^```' or line:find '^|'
    or line:find '^%s*[*-] ' or line:find '^%s*%d+%. ' or line:find '^    ')
end

--- A text of Markdown as lines for a terminal.
---@param text string
---@param width? number columns; the terminal's, or the widest that reads well
---@param kind? string the folder of the page, for its links
---@return string text
function M.text(text, width, kind)
  width = math.min(width or columns.terminal(), WIDEST)
  local out, lines, i = {}, {}, 1
  for line in (text .. '\n'):gmatch '(.-)\n' do lines[#lines + 1] = line end
  while lines[i] do
    local line = lines[i]
    local marks, title = line:match '^(#+) (.+)$'
    local indent, mark, rest = line:match '^(%s*)([*-]) (.*)$'
    if not mark then indent, mark, rest = line:match '^(%s*)(%d+%.) (.*)$' end
    if pages.fence(line) then
      i = i + 1
      while lines[i] and not pages.fence(lines[i]) do
        out[#out + 1] = lines[i] == '' and '' or '    ' .. lines[i]
        i = i + 1
      end
    elseif marks then
      title = inline(title, kind)
      out[#out + 1] = colour.paint('bold', #marks == 1 and title:upper() or title)
    elseif line:find '^|' then
      local rows = {}
      while lines[i] and lines[i]:find '^|' do
        if not lines[i]:find '^|[%s:|-]+$' then rows[#rows + 1] = cells_of(lines[i], kind) end
        i = i + 1
      end
      table_lines(out, rows, width)
      i = i - 1
    elseif line:find '^    %S' and not mark then
      out[#out + 1] = line
    elseif mark or is_plain(line) then
      local parts = { rest or line }
      while lines[i + 1] and is_plain(lines[i + 1]) do
        i = i + 1
        parts[#parts + 1] = lines[i]
      end
      local head = mark and indent .. mark .. ' ' or ''
      local flat = inline(table.concat(parts, ' '), kind)
      out[#out + 1] = head .. columns.wrap(flat, width - #head, (' '):rep(#head))
    else
      out[#out + 1] = line:find '%S' and line or ''
    end
    i = i + 1
  end
  return (table.concat(out, '\n'):gsub('\n\n\n+', '\n\n'):gsub('%s+$', ''))
end

return M
