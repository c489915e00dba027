-- SPDX-License-Identifier: MIT
--- Kernels, copies and fills of GPUs in a profile, each with its own times, as CUPTI tells them: by
--- the operation and the module that asked for them.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local columns = require 'ridge.show.columns'
local plain = require 'ridge.plain'
local tree = require 'ridge.profile.tree'
local unit = require 'ridge.show.unit'

local M = {}

local KINDS = { [C.RG_ACTIVITY_KERNEL] = 'kernel', [C.RG_ACTIVITY_COPY] = 'copy',
  [C.RG_ACTIVITY_FILL] = 'fill' }
local FACTS = { 'full', 'dropped', 'untimed', 'unknown', 'damaged' }

-- -- Recording ----------------------------------------------------------------------------------

local Recorder = {}
Recorder.__index = Recorder

local function reason() return (ffi.string(C.rg_error_message()):gsub('^activity: ', '')) end

-- Of a recorder that nobody ended, because its coroutine never came back.
local function abandon()
  if C.rg_activity_end(ffi.new 'rg_activity_facts') == 0 then C.rg_activity_release() end
end

--- One that records from now on.
---@param bytes number room for records
---@return table|nil recorder
---@return string|nil reason why there is none
function M.new(bytes)
  local ok, why = require('ridge.device').available()
  if not ok then return nil, why end
  local room = math.max(1, math.floor(bytes / ffi.sizeof 'rg_activity'))
  if C.rg_activity_begin(room) ~= 0 then return nil, reason() end
  return setmetatable({ mark = ffi.gc(ffi.new 'char[1]', abandon) }, Recorder)
end

--- No more; devices were waited for.
---@return table|nil found n, all (of rg_activity), and by name how many records are missing, or say
---  less than they should
---@return string|nil reason why what was recorded cannot be had
function Recorder:finish()
  ffi.gc(self.mark, nil)
  local facts = ffi.new 'rg_activity_facts'
  if C.rg_activity_end(facts) ~= 0 then return nil, reason() end
  local found = { n = tonumber(facts.n), version = tonumber(facts.version) }
  for _, name in ipairs(FACTS) do found[name] = tonumber(facts['n_' .. name]) end
  found.all = ffi.new('rg_activity[?]', math.max(1, found.n))
  for i = 0, found.n - 1 do call.check(C.rg_activity_at(i, found.all + i)) end
  C.rg_activity_release()
  return found
end

-- -- What it comes to ---------------------------------------------------------------------------

-- Events that records are of, by their serial.
local function events_of(copy, found)
  local wanted, by = {}, {}
  for i = 0, found.n - 1 do wanted[tonumber(found.all[i].serial)] = true end
  for event in copy:each() do
    if wanted[event.serial] then
      by[event.serial] = { name = event.name, path = event.path, module = event.module,
        begin_ns = event.begin_ns, end_ns = event.end_ns }
    end
  end
  return by
end

-- Does one that nobody of this thread asked for lie in what is measured?
local function within(windows, record)
  if record.from_ns ~= record.from_ns then return #windows > 0 end
  for _, window in ipairs(windows) do
    if record.from_ns >= window.from and record.from_ns < window.to then return true end
  end
  return false
end

-- Does it count? What was asked for in a step that does not, or by an event that is gone, does not.
local function counts(p, record, by)
  local serial = tonumber(record.serial)
  if serial < 0 then return within(p.windows, record) end
  return by[serial] ~= nil and tree.window_of(p.windows, serial) ~= nil
end

local function sizes(three) return { three[0], three[1], three[2] } end

local function device_of(record)
  return record.device >= 0 and ffi.string(C.rg_device_name(record.device)) or '?'
end

-- One record as a table, with what asked for it.
local function row_of(record, event)
  local kernel = record.kind == C.RG_ACTIVITY_KERNEL
  local row = { kind = KINDS[record.kind], name = ffi.string(record.name),
    device = device_of(record), stream = record.stream,
    op = event and event.name, path = event and event.path, module = event and event.module }
  if record.from_ns == record.from_ns then
    row.from_ns, row.to_ns = record.from_ns, record.to_ns
  end
  if kernel then
    row.registers, row.static_bytes = record.registers, record.static_bytes
    row.dynamic_bytes = record.dynamic_bytes
    row.grid, row.block = sizes(record.grid), sizes(record.block)
    row.occupancy = record.occupancy == record.occupancy and record.occupancy or nil
  else
    row.bytes = tonumber(record.bytes)
  end
  return row
end

--- The records that count, in the order they began; those without a time come first.
---@param p table profile
---@return fun(): table|nil next kind, name, op, path, module, device, stream, from_ns, to_ns,
---  registers, static_bytes, dynamic_bytes, grid, block, occupancy, bytes
---@return table|nil event that asked for it: name, path, module, begin_ns, end_ns
function M.each(p)
  local found, i = p.traced, -1
  if not found then return function() end end
  local by = events_of(p.copy, found)
  return function()
    i = i + 1
    while i < found.n and not counts(p, found.all[i], by) do i = i + 1 end
    if i >= found.n then return nil end
    local event = by[tonumber(found.all[i].serial)]
    return row_of(found.all[i], event), event
  end
end

-- What rows of one sum have in common; of the last two each number.
local SAME = { 'kind', 'name', 'op', 'path', 'module', 'device', 'registers', 'static_bytes',
  'dynamic_bytes', 'occupancy', 'grid', 'block' }

local function key_of(row)
  local parts = {}
  for i, name in ipairs(SAME) do
    local value = row[name]
    parts[i] = type(value) == 'table' and table.concat(value, ' ') or tostring(value)
  end
  return table.concat(parts, '\0')
end

local function add(sum, row)
  sum.calls = sum.calls + 1
  if row.bytes then sum.bytes = (sum.bytes or 0) + row.bytes end
  if not row.from_ns then
    sum.untimed = (sum.untimed or 0) + 1
    return
  end
  local ns = row.to_ns - row.from_ns
  sum.ns = sum.ns + ns
  sum.min_ns, sum.max_ns = math.min(sum.min_ns or ns, ns), math.max(sum.max_ns or ns, ns)
end

local SAYS = {
  full = '%s of kernels came when there was no more room: the first ones are told',
  dropped = '%s of kernels were dropped by CUPTI, which had no room',
  untimed = '%s of kernels have no time: CUPTI had no memory of the device for it',
  unknown = '%s of CUPTI are of a kind that is not known',
  damaged = '%s of CUPTI could not be read to the end: what they held is missing',
}

local function say(notes, found)
  for _, name in ipairs(FACTS) do
    if found[name] > 0 then
      notes[#notes + 1] = SAYS[name]:format(plain.count(found[name],
        name == 'damaged' and 'buffer' or 'record'))
    end
  end
end

--- Fill a profile: kernels, sums by name, launch, operation and module, what took most first.
---@param p table profile with copy, windows, notes and ns
---@param found table what a recorder found
function M.fill(p, found)
  local by, list, place = {}, {}, {}
  p.traced = found
  for row in M.each(p) do
    local key = key_of(row)
    local sum = by[key]
    if not sum then
      sum = { calls = 0, ns = 0 }
      for _, name in ipairs(SAME) do sum[name] = row[name] end
      by[key], list[#list + 1] = sum, sum
      place[sum] = #list
    end
    add(sum, row)
  end
  for _, sum in ipairs(list) do
    sum.share = p.ns > 0 and sum.ns / p.ns or 0
    if sum.bytes and sum.ns > 0 then sum.gbps = sum.bytes / sum.ns end
  end
  table.sort(list, function(a, b)
    if a.ns ~= b.ns then return a.ns > b.ns end
    return place[a] < place[b]
  end)
  p.kernels = list
  say(p.notes, found)
end

-- -- Text ---------------------------------------------------------------------------------------

--- A name without its types and arguments: "k_unary" of "void k_unary<float, 4>(view, ...)".
---@param name string
---@return string
function M.short(name)
  local text = name:gsub('%(anonymous namespace%)::', ''):gsub('^void ', '')
  return plain.line(text:match '^[^<(]+' or text)
end

local function across(three)
  local n = three[3] ~= 1 and 3 or three[2] ~= 1 and 2 or 1
  return table.concat(three, 'x', 1, n)
end

local RIGHT = { right = {} }
for i = 4, 9 do RIGHT.right[i] = true end

--- They as a table.
---@param p table profile
---@param list table rows of p.kernels
---@param limit integer|nil rows
---@return string
function M.told(p, list, limit)
  local rows, n = {}, math.min(limit or #list, #list)
  for i = 1, n do
    local e = list[i]
    rows[i] = { M.short(e.name), e.op or '', e.module or '', ('%d'):format(e.calls),
      unit.format('ns', e.ns), p.ns > 0 and ('%.1f %%'):format(100 * e.share) or '',
      e.registers and ('%d'):format(e.registers) or '',
      e.static_bytes and unit.format('bytes', e.static_bytes + e.dynamic_bytes) or '',
      e.occupancy and ('%.0f %%'):format(100 * e.occupancy) or '',
      e.grid and ('%s of %s'):format(across(e.grid), across(e.block))
        or unit.format('bytes', e.bytes) }
  end
  local text = columns.text({ 'kernel', 'operation', 'module', 'calls', 'time', 'share',
    'registers', 'shared', 'occupancy', 'blocks' }, rows, RIGHT)
  if n == #list then return text end
  return ('%s\n(and %s more)'):format(text, plain.count(#list - n, 'row'))
end

return M
