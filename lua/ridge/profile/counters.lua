-- SPDX-License-Identifier: MIT
--- Counters of the processor and of the kernel for a profile; of those that are not there, why.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local columns = require 'ridge.show.columns'
local products = require 'ridge.products'
local unit = require 'ridge.show.unit'

local M = {}

local Counters = {}
Counters.__index = Counters

--- Counters that do not count yet.
---@param by_operation boolean|nil for each operation too
---@return table counters
function M.new(by_operation)
  local slot = ffi.new 'rg_counters *[1]'
  call.check(C.rg_counters_new(slot))
  C.rg_counters_by_operation(slot[0], by_operation and 1 or 0)
  return setmetatable({ all = ffi.gc(slot[0], C.rg_counters_release) }, Counters)
end

--- Count from now on, or not.
---@param on boolean
function Counters:count(on)
  C.rg_counters_count(self.all, on and 1 or 0)
end

-- Rows by operation: op, calls, and what they counted by name; nil where nobody asked for them.
local function operations_of(all)
  local list, one = {}, ffi.new 'rg_operation_counts'
  while true do
    call.check(C.rg_counters_operation(all, #list, one))
    if one.name == nil then return #list > 0 and list or nil end
    local row = { op = ffi.string(one.name), calls = tonumber(one.n_calls) }
    for i = 0, C.RG_COUNTER_COUNT - 1 do
      local value = one.values[i]
      if value == value then row[ffi.string(C.rg_counter_name(i))] = value end
    end
    list[#list + 1] = row
  end
end

--- What was counted; then they are closed.
---@return table counts by name, those that there are; shares (by name, of the time that it was
---  counted: below 1 where counters took turns), ipc where cycles and instructions are known;
---  operations (where they were asked for): rows { op, calls, and counts by name }
---@return table unavailable by name: why there is none
function Counters:finish()
  local counts, unavailable, one = { shares = {} }, {}, ffi.new 'rg_counter'
  self:count(false)
  for i = 0, C.RG_COUNTER_COUNT - 1 do
    local name = ffi.string(C.rg_counter_name(i))
    call.check(C.rg_counters_read(self.all, i, one))
    if one.value == one.value then
      counts[name], counts.shares[name] = one.value, one.share
    else
      unavailable[name] = ffi.string(one.reason)
    end
  end
  counts.operations = operations_of(self.all)
  C.rg_counters_release(ffi.gc(self.all, nil))
  self.all = nil
  if counts.instructions and (counts.cycles or 0) > 0 then
    counts.ipc = counts.instructions / counts.cycles
  end
  return counts, unavailable
end

-- Elements of the largest tensor in a text of shapes, "f32[2,3] f32[3]"; 0: there is none.
local function largest(shapes)
  local most = 0
  for sizes in shapes:gmatch '%[([%d,]*)%]' do
    local count = 1
    for size in sizes:gmatch '%d+' do count = count * tonumber(size) end
    most = math.max(most, count)
  end
  return most
end

-- What kind of work a call is: sums and losses give less than they read, products multiply and add.
local function class_of_call(each)
  if products.of { name = each.op, flops = each.flops, shapes = each.shapes } > 0 then
    return 'products'
  end
  if each.flops == 0 then return 'copies and fills' end
  local read, made = each.shapes:match '^(.-)%->(.*)$'
  if not read then return 'other' end
  return largest(made) < largest(read) and 'sums and losses' or 'elementwise'
end

-- That of the most calls of an operation.
local function class_of(p, op)
  local class, most = 'other', 0
  for _, each in ipairs(p.calls) do
    if each.op == op and each.calls > most then class, most = class_of_call(each), each.calls end
  end
  return class
end

--- Sums of the counts of operations by their class.
---@param p table profile, whose counters have operations
---@return table rows class, ops (how many operations), calls, counts by name, the most calls first
function M.classes(p)
  local by, list = {}, {}
  for _, row in ipairs(p.counters.operations) do
    row.class = class_of(p, row.op)
    local sum = by[row.class]
    if not sum then
      sum = { class = row.class, ops = 0 }
      by[row.class], list[#list + 1] = sum, sum
    end
    sum.ops = sum.ops + 1
    for name, value in pairs(row) do
      if type(value) == 'number' then sum[name] = (sum[name] or 0) + value end
    end
  end
  table.sort(list, function(a, b)
    if a.calls ~= b.calls then return a.calls > b.calls end
    return a.class < b.class
  end)
  return list
end

-- A table of the classes, with the counters that there are.
local function classes_told(p, names)
  local head, rows, right = { 'class of operation', 'calls' }, {}, { [2] = true }
  for _, name in ipairs(names) do
    if p.counters[name] then
      head[#head + 1] = name
      right[#head] = true
    end
  end
  for i, sum in ipairs(p.counters.classes) do
    rows[i] = { sum.class, ('%d'):format(sum.calls) }
    for k = 3, #head do rows[i][k] = unit.format('count', sum[head[k]]) end
  end
  return columns.text(head, rows, { right = right })
end

-- Names by the reason why they are not there, in the order they are told.
local function reasons_of(p, names)
  local list, by = {}, {}
  for _, name in ipairs(names) do
    local reason = p.unavailable[name]
    if reason and by[reason] then
      by[reason][2] = by[reason][2] .. ', ' .. name
    elseif reason then
      by[reason] = { reason, name }
      list[#list + 1] = by[reason]
    end
  end
  return list
end

--- They as text.
---@param p table profile
---@return string
function M.told(p)
  local rows, names, parts = {}, {}, {}
  for i = 0, C.RG_COUNTER_COUNT - 1 do names[#names + 1] = ffi.string(C.rg_counter_name(i)) end
  for _, name in ipairs(names) do
    local value, share = p.counters[name], p.counters.shares[name]
    if value then
      rows[#rows + 1] = { name, unit.format('count', value), share < 0.999
        and ('counted %.0f %% of the time'):format(100 * share) or '' }
    end
  end
  if #rows > 0 then
    parts[1] = columns.text({ 'counter', 'count', '' }, rows, { right = { [2] = true } })
  end
  if p.counters.classes and #rows > 0 then parts[#parts + 1] = classes_told(p, names) end
  local ipc = p.counters.ipc
  if ipc then parts[#parts + 1] = ('%.2f instructions a cycle'):format(ipc) end
  names[#names + 1] = 'cupti'
  for _, found in ipairs(reasons_of(p, names)) do
    parts[#parts + 1] = ('(%s: unavailable: %s)'):format(found[2], found[1])
  end
  return table.concat(parts, '\n')
end

return M
