-- SPDX-License-Identifier: MIT
--- %mem and %who: what there is in memory, and which variables of the session hold it.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local columns = require 'ridge.show.columns'
local environment = require 'ridge.repl.environment'
local inspect = require 'ridge.repl.inspect'
local summary = require 'ridge.show.summary'
local types = require 'ridge.types'

local LARGEST = 5 -- variables that %mem names
local LINES = 8   -- and lines

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

-- What GPUs and pinned blocks have, where there are any; tags; and lines, where they are counted.
local function more_rows(memory)
  local C = require 'ridge.ffi.lib'
  local names = { 'pinned' }
  for i = 1, C.RG_DEVICE_COUNT - 1 do
    if C.rg_memory_of(i) ~= nil then names[#names + 1] = ffi.string(C.rg_device_name(i)) end
  end
  local devices, tags = {}, {}
  for _, name in ipairs(names) do
    if name ~= 'pinned' or C.rg_memory_of(C.RG_PINNED) ~= nil then
      local s = memory.stats(name)
      if s.peak_reserved > 0 then
        devices[#devices + 1] = { name, summary.bytes(s.live), summary.bytes(s.cached),
          summary.bytes(s.peak) }
      end
    end
  end
  for name, tag in pairs(memory.stats().tags) do
    tags[#tags + 1] = { name, summary.bytes(tag.live), tag.blocks, summary.bytes(tag.peak) }
  end
  table.sort(tags, function(a, b) return a[1] < b[1] end)
  return devices, tags
end

local function by_line(memory)
  local rows = {}
  for _, row in ipairs(memory.by_line()) do
    if row.live > 0 and #rows < LINES then
      rows[#rows + 1] = { row.line, summary.bytes(row.live), row.blocks, summary.bytes(row.peak),
        row.module }
    end
  end
  return rows
end

-- A table under its heads, where it has rows.
local function table_of(session, heads, rows)
  if #rows > 0 then
    session.write(columns.text(heads, rows, { right = { [2] = true, [3] = true, [4] = true } })
      .. '\n')
  end
end

local function mem(session, request)
  local switch = request.rest:match '^lines%s+(%a+)%s*$'
  if switch == 'on' or switch == 'off' then
    require('ridge.memory').lines(switch == 'on')
    session.write(switch == 'on' and 'memory is counted by line from here on\n'
      or 'memory is counted by line no more\n')
    return
  end
  if request.rest:find '%S' then
    blame.raise(("%%mem takes 'lines on' or 'lines off', got '%s'"):format(request.rest), 'EARG')
  end
  require('ridge.ffi.ref').collect()
  local memory = require 'ridge.memory'
  local s, process = memory.stats(), memory.process()
  local bytes = summary.bytes
  session.write(columns.text({ 'memory', 'now', '' }, {
    { 'tensors', bytes(s.live), ('%d alive, at most %s so far, limit %s'):format(s.tensors,
      bytes(s.peak), s.limit > 0 and bytes(s.limit) or 'none') },
    { 'kept for later', bytes(s.cached), 'ridge.memory.trim() gives it back' },
    { 'Lua', bytes(collectgarbage 'count' * 1024), 'tables, strings, functions' },
    { 'process', bytes(process.rss), ('of %s, of which %s are free'):format(bytes(process.total),
      bytes(process.available)) },
  }, { right = { [2] = true } }) .. '\n')
  local devices, tags = more_rows(memory)
  table_of(session, { 'device', 'live', 'cached', 'peak' }, devices)
  table_of(session, { 'tag', 'live', 'blocks', 'peak' }, tags)
  table_of(session, { 'line', 'live', 'blocks', 'peak', 'module' }, by_line(memory))
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
    usage = '%mem [lines on|off]', takes = 'words', run = mem,
    about = 'what is in memory, and which variables hold most\n'
      .. "'lines on' counts from then on by line of Lua, and %mem shows it.",
  },
}
