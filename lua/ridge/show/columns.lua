-- SPDX-License-Identifier: MIT
--- Rows as aligned columns: numbers to the right, texts to the left, cut to the terminal's width;
--- whole where standard output is none, as in a pipe or a file.

local colour = require 'ridge.show.colour'
local plain = require 'ridge.plain'

local M = {}

local GAP = 2
local WIDEST = 60 -- columns of one cell

--- A text cut to a number of columns, with "..." where something is missing.
---@param text string one line
---@param columns integer
---@return string text
function M.cut(text, columns)
  if colour.width(text) <= columns then return text end
  local kept, width = {}, 0
  for character in colour.strip(text):gmatch '[%z\1-\127\194-\244][\128-\191]*' do
    if width + 1 > columns - 3 then break end
    kept[#kept + 1], width = character, width + 1
  end
  return table.concat(kept) .. ('...'):sub(1, math.max(0, columns))
end

local function text_of(value)
  if value == nil then return '' end
  if type(value) == 'number' then
    if value == math.floor(value) and math.abs(value) < 2 ^ 53 then return ('%d'):format(value) end
    return ('%.6g'):format(value)
  end
  if type(value) == 'cdata' then return tostring(value):match '^%-?%d+' or '' end
  return M.cut(plain.line(value), WIDEST)
end

local function padded(text, width, right)
  local space = (' '):rep(width - colour.width(text))
  return right and space .. text or text .. space
end

--- The columns that a line may have: the terminal's. Nothing is cut for a file or `less -S`, and a
--- script of the plain luajit has no host to ask.
---@return number columns math.huge where there is no terminal
function M.terminal()
  local host = package.loaded['ridge.host']
  return host and host.columns and host.columns() or math.huge
end

--- A sentence in lines of so many columns, broken between words; a longer word has its own line.
---@param text string one line
---@param columns number
---@param indent string|nil in front of each line but the first
---@return string text
function M.wrap(text, columns, indent)
  local lines, line, width = {}, nil, 0
  for word in text:gmatch '%S+' do
    local n = colour.width(word)
    if line and width + 1 + n > columns then
      lines[#lines + 1] = line
      line, width = nil, 0
    end
    if line then
      line, width = line .. ' ' .. word, width + 1 + n
    else
      line = (#lines > 0 and indent or '') .. word
      width = colour.width(line)
    end
  end
  lines[#lines + 1] = line
  return table.concat(lines, '\n')
end

--- Rows under their heads.
---@param heads string[] names of the columns
---@param rows any[][] cells; numbers, texts, or nil for nothing
---@param opts? {width: integer, right: table<integer, boolean>} width: the terminal's, or none;
---  right: columns of texts that stand to the right
---@return string text lines without a newline at the end
-- >> columns.text({ 'name', 'n' }, { { 'x', 1 }, { 'y', 20 } })
function M.text(heads, rows, opts)
  local total = opts and opts.width or M.terminal()
  local texts, widths, right = {}, {}, {}
  for k, head in ipairs(heads) do
    widths[k] = colour.width(head)
    right[k] = opts and opts.right and opts.right[k] or false
  end
  for i, row in ipairs(rows) do
    texts[i] = {}
    for k = 1, #heads do
      texts[i][k] = text_of(row[k])
      widths[k] = math.max(widths[k], colour.width(texts[i][k]))
      right[k] = right[k] or type(row[k]) == 'number' or type(row[k]) == 'cdata'
    end
  end
  local function line(cells)
    local parts = {}
    for k = 1, #heads do parts[k] = padded(cells[k], widths[k], right[k]) end
    local joined = table.concat(parts, (' '):rep(GAP)):gsub('%s+$', '')
    return M.cut(joined, total)
  end
  local lines = { colour.paint('dim', line(heads)) }
  for i, cells in ipairs(texts) do lines[i + 1] = line(cells) end
  return table.concat(lines, '\n')
end

return M
