-- SPDX-License-Identifier: MIT
--- Docstrings: LuaLS annotations read from source text. One reader serves `?name` at the prompt,
-- `ridge help` and the written reference.
--
-- A docstring is a block of comment lines that begins with `---` and stands right above a function:
-- text, `@param name type meaning`, `@return type meaning`, and examples that begin with `>>`. The
-- comment at the head of a file describes the module.

local M = {}

---@class ridge.repl.Entry
---@field owner string|nil the table in the source: 'M', 'Session'; nil for a local function
---@field name string the function's own name
---@field method boolean defined with a colon
---@field parameters string the list as written: 'x, opts'
---@field text string the description
---@field params {name: string, type: string, text: string}[] the parameters
---@field returns {type: string, text: string}[] the results
---@field examples string[] lines that begin with >>
---@field line integer where the function stands
---@field returned boolean its table is what the module returns

--- Split "type meaning", where a type may hold spaces inside brackets or after a comma or bar.
local function type_and_text(rest)
  local depth, at = 0, 1
  while at <= #rest do
    local c = rest:sub(at, at)
    if c:find '[%(%[{<]' then depth = depth + 1 end
    if c:find '[%)%]}>]' then depth = depth - 1 end
    if c == ' ' and depth == 0 and not rest:sub(1, at - 1):find '[,:|]$' then break end
    at = at + 1
  end
  return rest:sub(1, at - 1), (rest:sub(at + 1):gsub('^%s+', ''))
end

local function read_tag(entry, tag, rest)
  if tag == 'param' then
    local name, more = rest:match '^(%S+)%s*(.*)$'
    if not name then return end
    local kind, text = type_and_text(more)
    entry.params[#entry.params + 1] = { name = name, type = kind, text = text }
    entry.last = entry.params[#entry.params]
  elseif tag == 'return' then
    local kind, text = type_and_text(rest)
    entry.returns[#entry.returns + 1] = { type = kind, text = text }
    entry.last = entry.returns[#entry.returns]
  else
    entry.last = { text = '' } -- class, field, ...: not shown, but takes what follows
  end
end

--- A block of comment lines, without their dashes, as an entry.
local function read_block(lines)
  local entry = { params = {}, returns = {}, examples = {} }
  local text = {}
  for _, line in ipairs(lines) do
    local tag, rest = line:match '^%s?@(%a+)%s*(.*)$'
    local example = line:match '^%s*>>%s?(.*)$'
    if tag then
      read_tag(entry, tag, rest)
    elseif example then
      entry.examples[#entry.examples + 1] = example
    elseif entry.last then
      entry.last.text = entry.last.text .. ' ' .. line:match '^%s*(.-)%s*$'
    else
      text[#text + 1] = (line:gsub('^ ', ''))
    end
  end
  entry.last = nil
  entry.text = table.concat(text, '\n'):match '^%s*(.-)%s*$'
  return entry
end

local SHAPES = {
  '^function%s+([%w_.]+)([.:])([%w_]+)%s*(%b())',
  '^([%w_.]+)([.])([%w_]+)%s*=%s*function%s*(%b())',
}

--- Complete an entry with the function that stands in a line; false if there is none.
local function read_function(entry, code)
  for _, shape in ipairs(SHAPES) do
    local owner, mark, name, parameters = code:match(shape)
    if owner then
      entry.owner, entry.name, entry.method = owner, name, mark == ':'
      -- `extra` is there to be refused
      entry.parameters = parameters:sub(2, -2):gsub('%s+', ' '):gsub(',? ?extra$', '')
      return true
    end
  end
  local name, parameters = code:match '^local%s+function%s+([%w_]+)%s*(%b())'
  if not name then return false end
  entry.name, entry.method, entry.parameters = name, false, parameters:sub(2, -2)
  return true
end

--- The comment at the head of a file, behind the licence line.
local function head_of(lines)
  local text = {}
  for i = 1, #lines do
    local line = lines[i]:match '^%-%-+(.*)$'
    if not line then break end
    if not line:find 'SPDX%-License' then text[#text + 1] = (line:gsub('^ ', '')) end
  end
  return table.concat(text, '\n'):match '^%s*(.-)%s*$'
end

--- All docstrings of a source.
---@param source string text of a Lua file
---@return ridge.repl.Entry[] entries the functions, in order
---@return string module the module's description
function M.parse(source)
  local lines, entries = {}, {}
  for line in (source .. '\n'):gmatch '(.-)\r?\n' do lines[#lines + 1] = line end
  local returned = source:match '\nreturn%s+([%w_]+)%s*$'
    or source:match '\nreturn%s+setmetatable%(([%w_]+)'
  local block
  for number, line in ipairs(lines) do
    local starts = line:match '^%-%-%-(.*)$'
    local goes_on = block and line:match '^%-%-(.*)$'
    if starts then
      block = block or {}
      block[#block + 1] = starts
    elseif goes_on then
      block[#block + 1] = goes_on
    elseif block then
      local entry = read_block(block)
      block = nil
      -- a list of parameters may go on in the next lines
      local code = table.concat(lines, ' ', number, math.min(number + 4, #lines))
      if read_function(entry, code) then
        entry.line = number
        entry.returned = entry.owner ~= nil and entry.owner == returned
        entries[#entries + 1] = entry
      end
    end
  end
  return entries, head_of(lines)
end

return M
