-- SPDX-License-Identifier: MIT
-- Comparisons as rows: what was held against what, the verdict, and the time of every slot.

local canonical = require 'ridge.store.canonical'
local clock = require 'ridge.store.clock'
local ffi = require 'ffi'
local record = require 'ridge.store.record'
local sqlite = require 'ridge.store.sqlite'

local M = {}

-- A block's design as one letter; upper case: the same candidate in all four slots.
local LETTER = { abABBA = 'a', abBAAB = 'b', aaABBA = 'A', aaBAAB = 'B' }
local DESIGN = { a = 'ABBA', b = 'BAAB', A = 'ABBA', B = 'BAAB' }

local function pack(processes)
  local letters, times = {}, {}
  for _, process in ipairs(processes or {}) do
    for _, block in ipairs(process.blocks) do
      letters[#letters + 1] = LETTER[block.kind .. block.design]
      for i = 1, 4 do times[#times + 1] = block.times[i] end
    end
  end
  if #times == 0 then return nil, nil end
  local array = ffi.new('double[?]', #times, times)
  return table.concat(letters), ffi.string(array, ffi.sizeof 'double' * #times)
end

--- Keep a comparison.
-- >> comparison.add(st, found, { phase = 'fwd', a = { k = 1 }, b = { k = 2 } })
---@param st table store open for writing
---@param found table result of ridge.measure.ab
---@param about table phase, a and b (parameters), sweep (name), env_id, q
---@return integer id
function M.add(st, found, about)
  local designs, slots = pack(found.processes)
  local host, at = found.host or {}, clock.now_us()
  local function known(x) return x == x and x or nil end
  local values = {
    sweep = about.sweep, phase = about.phase, cache = found.cache or 'warm',
    a = canonical.encode(about.a), b = canonical.encode(about.b), env_id = about.env_id,
    design = found.design, blocks = found.blocks, procs = found.procs, looks = found.looks,
    a_ns = found.a_ns, b_ns = found.b_ns, ratio = found.ratio, ci_lo = found.ci_lo,
    ci_hi = found.ci_hi, ci_how = found.ci_how, p = found.p, q = about.q, floor = found.floor,
    margin = found.margin, aa = found.aa, verdict = found.verdict, needed = found.needed,
    flags = record.flags(found.flags), foreign_share = known(host.foreign),
    steal_share = known(host.steal), pressure_share = known(host.pressure), designs = designs,
    at = at,
  }
  local address = canonical.address(canonical.encode { at = at, a = values.a, b = values.b,
    phase = about.phase, ratio = found.ratio, sweep = about.sweep } .. clock.random_bytes(8))
  values.uuid, values.slots = sqlite.blob(address), slots and sqlite.blob(slots)
  return st:within(function() return st.db:insert('comparison', values) end)
end

--- The blocks of a stored comparison.
---@param row table of the table comparison
---@return table blocks each kind ('ab', 'aa'), design, times (ns of a call, four)
function M.blocks(row)
  local out = {}
  if not row.slots then return out end
  local times = record.unpack('at', row.slots)
  for i = 1, #row.designs do
    local letter = row.designs:sub(i, i)
    local block = { kind = letter:upper() == letter and 'aa' or 'ab', design = DESIGN[letter],
                    times = {} }
    for k = 1, 4 do block.times[k] = times[4 * (i - 1) + k] end
    out[i] = block
  end
  return out
end

--- Stored comparisons, newest first; a and b as tables.
---@param st table
---@param sweep string|nil  only of this sweep
---@return table rows
function M.rows(st, sweep)
  local rows = st.db:look([[/* comparisons */ SELECT * FROM main.comparison
    WHERE ?1 IS NULL OR sweep = ?1 ORDER BY id DESC]], sweep)
  for _, row in ipairs(rows) do
    row.a, row.b = canonical.decode(row.a), canonical.decode(row.b)
  end
  return rows
end

return M
