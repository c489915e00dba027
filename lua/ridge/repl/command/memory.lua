-- SPDX-License-Identifier: MIT
--- %mem and %who: what there is in memory, and which variables of the session hold it.

local columns = require 'ridge.show.columns'
local environment = require 'ridge.repl.environment'
local inspect = require 'ridge.repl.inspect'
local summary = require 'ridge.show.summary'
local types = require 'ridge.types'

local LARGEST = 5 -- variables that %mem names

--- One line on what a value is.
local function about(value)
  local entry = types.of(value)
  if entry and entry.methods.describe then
    local ok, text = pcall(function() return value:describe() end)
    return entry.name, ok and text or 'released'
  end
  local kind = entry and entry.name or type(value)
  local text = inspect.value(value, { depth = 1, items = 6, width = 200 })
  local first, more = text:match '^([^\n]*)(\n?)'
  return kind, more ~= '' and first .. ' ...' or first
end

--- The variables of a session: name, kind, text, bytes; sorted by name.
local function variables(session)
  local list = {}
  for name, value in next, session.env do
    local last = type(name) == 'string' and name:find '^_%d?$'
    if type(name) == 'string' and not last and value ~= environment.given(name) then
      local kind, text = about(value)
      list[#list + 1] = { name = name, kind = kind, text = text, bytes = types.bytes(value) }
    end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

local function who(session, request)
  local rows = {}
  for _, v in ipairs(variables(session)) do
    if v.name:find(request.rest, 1, true) == 1 then
      rows[#rows + 1] = { v.name, v.kind, v.bytes > 0 and summary.bytes(v.bytes) or '', v.text }
    end
  end
  if #rows == 0 then
    session.write('no variables' .. (request.rest ~= '' and ' of that name' or ' yet') .. '\n')
    return
  end
  session.write(columns.text({ 'name', 'type', 'bytes', '' }, rows, { right = { [3] = true } })
    .. '\n')
end

local function mem(session)
  require('ridge.ffi.ref').collect()
  local memory = require 'ridge.memory'
  local s, process = memory.stats(), memory.process()
  local bytes = summary.bytes
  session.write(columns.text({ 'memory', 'now', '' }, {
    { 'tensors', bytes(s.live), ('%d alive, at most %s so far, limit %s'):format(s.tensors,
      bytes(s.peak), s.limit > 0 and bytes(s.limit) or 'none') },
    { 'kept for later', bytes(s.reserved - s.live), 'ridge.memory.trim() gives it back' },
    { 'Lua', bytes(collectgarbage 'count' * 1024), 'tables, strings, functions' },
    { 'process', bytes(process.rss), ('of %s, of which %s are free'):format(bytes(process.total),
      bytes(process.available)) },
  }, { right = { [2] = true } }) .. '\n')
  local list = variables(session)
  table.sort(list, function(a, b) return a.bytes > b.bytes end)
  local rows = {}
  for i = 1, math.min(LARGEST, #list) do
    local v = list[i]
    if v.bytes > 0 then rows[i] = { v.name, bytes(v.bytes), v.text } end
  end
  if #rows == 0 then return end
  session.write(columns.text({ 'largest', 'bytes', '' }, rows, { right = { [2] = true } }) .. '\n')
end

return {
  who = {
    usage = '%who [BEGINNING]', takes = 'words', run = who,
    about = 'the variables of this session',
  },
  mem = {
    usage = '%mem', takes = 'words', run = mem,
    about = 'what is in memory, and which variables hold most',
  },
}
