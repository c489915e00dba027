-- SPDX-License-Identifier: MIT
--- A sweep as it shows: its parameters, and how far it is in its database. Nothing is measured.

local canonical = require 'ridge.store.canonical'
local colour = require 'ridge.show.colour'
local columns = require 'ridge.show.columns'
local plain = require 'ridge.plain'
local value = require 'ridge.show.value'

local M = {}

local FEW = 5 -- values of a parameter that are all written

local function word(v) return type(v) == 'number' and canonical.number(v) or tostring(v) end

-- 'width 64 .. 1024 (9 values)', 'dtype f32, bf16', 'rate ridge.random(...)'.
local function values_of(name, list)
  if type(list) ~= 'table' then return ('%s %s'):format(name, tostring(list)) end
  local words, numbers = {}, true
  for i, v in ipairs(list) do
    words[i], numbers = word(v), numbers and type(v) == 'number'
  end
  if #list <= FEW then return ('%s %s'):format(name, table.concat(words, ', ')) end
  local first, last = words[1], words[#words]
  if numbers then
    local low, high = math.huge, -math.huge
    for _, v in ipairs(list) do low, high = math.min(low, v), math.max(high, v) end
    first, last = word(low), word(high)
  end
  return ('%s %s .. %s (%d values)'):format(name, first, last, #list)
end

-- The parameters of a space as it is stored.
local function space_of(text)
  local space = canonical.decode(text)
  local names, parts = {}, {}
  for name in pairs(space.params or {}) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    parts[i] = plain.line(values_of(name, space.params[name]))
  end
  return table.concat(parts, '; ')
end

-- What a database says of it: how far it is, its space; nil where it is not there.
local function stored(sw)
  local store = require 'ridge.store'
  local ok, found = pcall(store.with, sw.db, 'read', function(st)
    local sweep = require('ridge.store.query').sweep(st, sw.stored_as or sw.name)
    local far = require('ridge.store.sweeps').how_far(st, sweep)
    local row = st.db:row('/* space of a sweep */ SELECT space FROM main.sweep WHERE id = ?',
      sweep.id)
    return { far = far, space = row.space, name = sweep.name }
  end)
  return ok and found or nil, not ok and found or nil
end

local function far_of(far)
  local text = ('%d of %s done'):format(far.done, plain.count(far.points, 'point'))
  if far.running > 0 then text = ('%s, %d running'):format(text, far.running) end
  if far.failed ~= '' then text = ('%s; failed: %s'):format(text, far.failed) end
  if far.grades ~= '' then text = ('%s; grades: %s'):format(text, far.grades) end
  return far.last and ('%s; last %s'):format(text, far.last) or text
end

local function head(sw)
  if not sw.plan then return ('stored sweep %s in %s'):format(sw.name, sw.db) end
  return ('sweep %s of %s'):format(sw.name, plain.count(sw.plan.n_points, 'point'))
end

local function box(sw)
  local lines, room = { plain.line(head(sw)) }, columns.terminal()
  local found, why
  if sw.db then found, why = stored(sw) end
  local space = sw.plan and sw.plan.text or found and found.space
  if space then
    local ok, text = pcall(space_of, space)
    lines[#lines + 1] = ok and text ~= '' and columns.wrap(text, room, '  ') or nil
  end
  if sw.plan and sw.plan.n_rejected > 0 then
    lines[#lines + 1] = ('where leaves out %d of the grid'):format(sw.plan.n_rejected)
  end
  if found then
    local at = sw.plan and ('in %s%s: '):format(sw.db,
      found.name ~= sw.name and ' as ' .. found.name or '') or ''
    lines[#lines + 1] = columns.wrap(plain.line(at .. far_of(found.far)), room, '  ')
  elseif why then
    lines[#lines + 1] = plain.line(type(why) == 'table' and why.message or tostring(why))
  else
    lines[#lines + 1] = colour.paint('dim', 'not run yet: _:dry_run() says what it would do')
  end
  return table.concat(lines, '\n')
end

--- Let a metatable's sweeps show themselves.
---@param meta table
---@return table meta
function M.sweeps(meta) return value.ways(meta, { line = head, box = box }) end

return M
