-- SPDX-License-Identifier: MIT
--
-- What a figure's file says about itself, and how the figure is made from the file again.
--
-- The text chunks name the query, database, sweep, recipe, commit, version and theme, and carry
-- the rows and options as tab-separated text: the first line names the columns with their types
-- (`n` number, `s` string, `b` boolean), an empty field is nil. It is data, never run, and any
-- program that splits at tabs can read it.

local blame = require 'ridge.blame'

local M = {}

-- Rows beyond this stay out of the file; it then says so and the query leads to them.
local MAX_ROWS = 20000

local ESCAPE = { ['\\'] = '\\\\', ['\t'] = '\\t', ['\n'] = '\\n', ['\r'] = '\\r', ['\0'] = '\\0' }
local UNESCAPE = { ['\\'] = '\\', t = '\t', n = '\n', r = '\r', ['0'] = '\0' }
local TYPE = { number = 'n', string = 's', boolean = 'b' }

local function field(v)
  if v == nil then return '' end
  if type(v) == 'number' then
    -- The shortest of the texts that read back as the same number.
    local short = ('%.15g'):format(v)
    return tonumber(short) == v and short or ('%.17g'):format(v)
  end
  if type(v) == 'boolean' then return v and 'true' or 'false' end
  -- A backslash in front tells the empty string from nil.
  return v == '' and '\\e' or (v:gsub('[\\\t\n\r%z]', ESCAPE))
end

local function value(text, kind)
  if text == '' then return nil end
  if kind == 'n' then return tonumber(text) end
  if kind == 'b' then return text == 'true' end
  if text == '\\e' then return '' end
  return (text:gsub('\\(.)', UNESCAPE))
end

--- Rows as tab-separated text.
---@param rows table array of tables with numbers, strings and booleans
---@return string text
function M.pack(rows)
  local names, kinds = {}, {}
  for _, row in ipairs(rows) do
    for name, v in pairs(row) do
      local kind = TYPE[type(v)]
      -- Columns a picture cannot use (nested tables) are not part of it.
      if kind and type(name) == 'string' then
        if not kinds[name] then
          kinds[name] = kind
          names[#names + 1] = name
        elseif kinds[name] ~= kind then
          blame.raise(("column '%s' holds both %s and another type"):format(name, type(v)), 'EARG')
        end
      end
    end
  end
  table.sort(names)
  local head, lines = {}, {}
  for i, name in ipairs(names) do head[i] = field(name) .. ':' .. kinds[name] end
  lines[1] = table.concat(head, '\t')
  for k, row in ipairs(rows) do
    local cells = {}
    for i, name in ipairs(names) do cells[i] = field(row[name]) end
    lines[k + 1] = table.concat(cells, '\t')
  end
  return table.concat(lines, '\n')
end

local function split(line)
  local out = {}
  for cell in (line .. '\t'):gmatch('([^\t]*)\t') do out[#out + 1] = cell end
  return out
end

--- Rows from tab-separated text.
---@param text string
---@param path string for messages
---@return table rows
function M.unpack(text, path)
  local rows, names, kinds = {}, nil, {}
  for line in (text .. '\n'):gmatch('(.-)\n') do
    local cells = split(line)
    if not names then
      names = {}
      for i, cell in ipairs(cells) do
        local name, kind = cell:match('^(.*):([nsb])$')
        if not name then
          blame.raise(("%s: '%s' names no column of a figure"):format(path, cell), 'EFORMAT')
        end
        names[i], kinds[i] = value(name, 's'), kind
      end
    else
      if #cells ~= #names then
        blame.raise(('%s: row %d has %d fields instead of %d'):format(path, #rows + 1, #cells,
          #names), 'EFORMAT')
      end
      local row = {}
      for i, cell in ipairs(cells) do row[names[i]] = value(cell, kinds[i]) end
      rows[#rows + 1] = row
    end
  end
  return rows
end

-- Chunk keyword -> option of the figure.
local PROVENANCE = {
  { 'ridge:query', 'query' }, { 'ridge:database', 'database' }, { 'ridge:sweep', 'sweep' },
  { 'ridge:recipe', 'recipe' }, { 'ridge:commit', 'commit' }, { 'ridge:device', 'device' },
  { 'ridge:date', 'date' }, { 'ridge:version', 'version' },
}

--- The text chunks of a figure.
---@param figure table
---@param theme string
---@return table texts array of {keyword, text}
function M.texts(figure, theme)
  local opt = figure.opt
  local out = { { 'Title', figure.title }, { 'Description', figure:text() },
    { 'Software', 'ridge ' .. (opt.version or '') }, { 'ridge:figure', figure.kind } }
  out[3][2] = out[3][2]:gsub(' $', '')
  for _, pair in ipairs(PROVENANCE) do
    if opt[pair[2]] then out[#out + 1] = { pair[1], tostring(opt[pair[2]]) } end
  end
  out[#out + 1] = { 'ridge:theme', theme }
  local given = {}
  for name, v in pairs(opt) do if TYPE[type(v)] then given[name] = v end end
  given.theme = theme
  out[#out + 1] = { 'ridge:options', M.pack { given } }
  if #figure.rows <= MAX_ROWS then
    out[#out + 1] = { 'ridge:rows', M.pack(figure.rows) }
  else
    out[#out + 1] = { 'ridge:rows-left-out', ('%d rows are more than a file carries (%d); the '
      .. 'query gives them'):format(#figure.rows, MAX_ROWS) }
  end
  return out
end

--- What is needed to draw a figure again.
---@param texts table keyword -> text, from png.read_texts
---@param path string for messages
---@return string kind
---@return table rows
---@return table opt
function M.restore(texts, path)
  if not texts['ridge:figure'] then
    blame.raise(path .. ' is not a figure of ridge: it has no text ridge:figure', 'EFORMAT')
  end
  if not texts['ridge:rows'] then
    blame.raise(('%s carries no rows%s'):format(path, texts['ridge:rows-left-out']
      and ': ' .. texts['ridge:rows-left-out'] or ''), 'EFORMAT')
  end
  local opt = M.unpack(texts['ridge:options'] or '', path)[1] or {}
  return texts['ridge:figure'], M.unpack(texts['ridge:rows'], path), opt
end

return M
