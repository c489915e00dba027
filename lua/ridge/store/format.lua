-- SPDX-License-Identifier: MIT
--- Rows as text: an aligned table, CSV (RFC 4180), JSON, JSON lines, Markdown.

local canonical = require 'ridge.store.canonical'
local plain = require 'ridge.plain'

local M = {}

--- The names of the forms.
M.FORMS = { 'table', 'csv', 'json', 'jsonl', 'md' }

local function number(v)
  if v ~= v then return 'nan' end
  if v == math.floor(v) and math.abs(v) < 2 ^ 53 then return ('%d'):format(v) end
  return ('%.6g'):format(v)
end

-- SQL's whole numbers beyond 2^53, without the LL of LuaJIT.
local function long(v) return type(v) == 'cdata' and tostring(v):match '^%-?%d+' or nil end

local function cell(v)
  if v == nil then return '' end
  if long(v) then return long(v) end
  return type(v) == 'number' and number(v) or plain.line(v)
end

-- Tables are for reading: six digits. Files are for computing: all of them.
local function exact(v)
  if v == nil then return '' end
  if type(v) == 'number' then
    return v == v and math.abs(v) < math.huge and canonical.number(v) or tostring(v)
  end
  return long(v) or tostring(v)
end

local function width_of(text) return select(2, text:gsub('[^\128-\191]', '')) end

-- A table is for eyes: a column of times says so; in files names stay what they are.
local function heads_of(found)
  local heads = {}
  for i, title in ipairs(found.titles) do
    local unit = found.units and found.units[i]
    heads[i] = plain.line(title) .. (unit and ' [' .. unit .. ']' or '')
  end
  return heads
end

-- The rows from the first on. Those of found.each are made one at a time, since all of them may be
-- more than memory holds; called again, it begins again.
local function each(found)
  if found.each then return found.each() end
  local i = 0
  return function()
    i = i + 1
    return found.lines[i]
  end
end

-- Which columns hold numbers alone, and how wide each is.
local function measure(found, heads)
  local right, widths = {}, {}
  for i = 1, #heads do right[i], widths[i] = true, width_of(heads[i]) end
  for line in each(found) do
    for i = 1, #heads do
      local v = line[i]
      if v ~= nil and type(v) ~= 'number' and not long(v) then right[i] = false end
      widths[i] = math.max(widths[i], width_of(cell(v)))
    end
  end
  return right, widths
end

-- What puts pieces of text together until they are worth a write.
local PIECE = 65536
local function gathered(put)
  local parts, n, bytes = {}, 0, 0
  local function flush()
    if n > 0 then put(table.concat(parts, '', 1, n)) end
    n, bytes = 0, 0
  end
  return function(text)
    n, bytes = n + 1, bytes + #text
    parts[n] = text
    if bytes >= PIECE then flush() end
  end, flush
end

local function aligned(found, put)
  local heads = heads_of(found)
  local right, widths = measure(found, heads)
  local function add(line, text)
    local parts = {}
    for i = 1, #heads do
      local value = text(line[i])
      local pad = (' '):rep(widths[i] - width_of(value))
      parts[i] = right[i] and pad .. value or value .. pad
    end
    put(table.concat(parts, '  '):gsub('%s+$', '') .. '\n')
  end
  add(heads, tostring)
  for line in each(found) do add(line, cell) end
end

local function quoted(text)
  if text:find '[,"\r\n]' then return '"' .. text:gsub('"', '""') .. '"' end
  return text
end

local function csv(found, put)
  local function add(line)
    local parts = {}
    for i = 1, #found.titles do parts[i] = quoted(exact(line[i])) end
    put(table.concat(parts, ',') .. '\n')
  end
  add(found.titles)
  for line in each(found) do add(line) end
end

local function object(found, line)
  local row = {}
  for i, title in ipairs(found.titles) do
    local v = line[i]
    if type(v) == 'number' and (v ~= v or math.abs(v) == math.huge) then v = tostring(v) end
    row[title] = v
  end
  return canonical.encode(row)
end

local function jsonl(found, put)
  for line in each(found) do put(object(found, line) .. '\n') end
end

local function json(found, put)
  local between = '{"format":"ridge-rows","rows":['
  for line in each(found) do
    put(between .. object(found, line))
    between = ',\n'
  end
  put((between == ',\n' and '' or between) .. '],"version":1}\n')
end

local function markdown(found, put)
  local heads, rule = heads_of(found), {}
  local right = measure(found, heads)
  local function add(line, text)
    local parts = {}
    for i = 1, #heads do parts[i] = (text(line[i]):gsub('|', '\\|'):gsub('\n', ' ')) end
    put('| ' .. table.concat(parts, ' | ') .. ' |\n')
  end
  add(heads, tostring)
  for i = 1, #heads do rule[i] = right[i] and '---:' or '---' end
  put('| ' .. table.concat(rule, ' | ') .. ' |\n')
  for line in each(found) do add(line, cell) end
end

local FORM = { csv = csv, jsonl = jsonl, json = json, md = markdown, table = aligned }

--- Rows in a form, a piece of whole lines at a time, so that neither rows nor text stand in memory.
---@param found table titles; lines, or each: a function that returns an iterator over them
---@param form string one of FORMS
---@param put fun(text: string) takes the pieces in their order
function M.write(found, form, put)
  local add, flush = gathered(put)
  FORM[form](found, add)
  flush()
end

--- Rows in a form.
---@param found table titles; lines, or each as M.write has it
---@param form string one of FORMS
---@return string text
-- >> format.text({ titles = { 'k' }, lines = { { 1 } } }, 'csv')
function M.text(found, form)
  local parts = {}
  M.write(found, form, function(piece) parts[#parts + 1] = piece end)
  return table.concat(parts)
end

return M
