-- SPDX-License-Identifier: MIT
--- Rows as text: an aligned table, CSV (RFC 4180), JSON, JSON lines, Markdown.

local canonical = require 'ridge.store.canonical'
local plain = require 'ridge.plain'

local M = {}

--- The names of the forms.
M.FORMS = { 'table', 'csv', 'json', 'jsonl', 'md' }

local function number(v)
  if v ~= v then return 'nan' end
  if v == math.floor(v) and math.abs(v) < 1e15 then return ('%d'):format(v) end
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

local function is_number_column(lines, i)
  for _, line in ipairs(lines) do
    if line[i] ~= nil and type(line[i]) ~= 'number' and not long(line[i]) then return false end
  end
  return true
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

local function aligned(found)
  local n, widths, right, out = #found.titles, {}, {}, {}
  local heads = heads_of(found)
  for i = 1, n do
    widths[i], right[i] = width_of(heads[i]), is_number_column(found.lines, i)
    for _, line in ipairs(found.lines) do
      widths[i] = math.max(widths[i], width_of(cell(line[i])))
    end
  end
  local function add(line, text)
    local parts = {}
    for i = 1, n do
      local value = text(line[i])
      local pad = (' '):rep(widths[i] - width_of(value))
      parts[i] = right[i] and pad .. value or value .. pad
    end
    out[#out + 1] = (table.concat(parts, '  '):gsub('%s+$', ''))
  end
  add(heads, tostring)
  for _, line in ipairs(found.lines) do add(line, cell) end
  return table.concat(out, '\n') .. '\n'
end

local function quoted(text)
  if text:find '[,"\r\n]' then return '"' .. text:gsub('"', '""') .. '"' end
  return text
end

local function csv(found)
  local out = {}
  local function add(line)
    local parts = {}
    for i = 1, #found.titles do parts[i] = quoted(exact(line[i])) end
    out[#out + 1] = table.concat(parts, ',')
  end
  add(found.titles)
  for _, line in ipairs(found.lines) do add(line) end
  return table.concat(out, '\n') .. '\n'
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

local function json_lines(found)
  local out = {}
  for i, line in ipairs(found.lines) do out[i] = object(found, line) end
  return out
end

local function markdown(found)
  local out, rule = {}, {}
  local function add(line, text)
    local parts = {}
    for i = 1, #found.titles do parts[i] = (text(line[i]):gsub('|', '\\|'):gsub('\n', ' ')) end
    out[#out + 1] = '| ' .. table.concat(parts, ' | ') .. ' |'
  end
  add(heads_of(found), tostring)
  for i = 1, #found.titles do rule[i] = is_number_column(found.lines, i) and '---:' or '---' end
  out[2] = '| ' .. table.concat(rule, ' | ') .. ' |'
  for _, line in ipairs(found.lines) do add(line, cell) end
  return table.concat(out, '\n') .. '\n'
end

--- Rows in a form.
---@param found table titles, lines
---@param form string one of FORMS
---@return string text
-- >> format.text({ titles = { 'k' }, lines = { { 1 } } }, 'csv')
function M.text(found, form)
  if form == 'csv' then return csv(found) end
  if form == 'jsonl' then
    local list = json_lines(found)
    return table.concat(list, '\n') .. (#list > 0 and '\n' or '')
  end
  if form == 'json' then
    return ('{"format":"ridge-rows","rows":[%s],"version":1}\n'):format(
      table.concat(json_lines(found), ',\n'))
  end
  if form == 'md' then return markdown(found) end
  return aligned(found)
end

return M
