-- SPDX-License-Identifier: MIT
--- How far unlike machines are apart, by the anchor: the one point of a sweep that each of them has
--- measured (`anchor =` in a recipe).
--
-- Every pass of every anchor is an observation of its machine. Nothing pairs passes of two
-- machines, so the ratio is that of two medians, and its interval reaches from each end of one to
-- the far end of the other: each at 97.5 %, so that both together hold in 95 % of cases.  Attempts
-- count, not trials: anchors of two shards are one trial in a merged file, with the attempts of
-- both.

local hardware = require 'ridge.sweep.hardware'
local passes = require 'ridge.measure.passes'
local plain = require 'ridge.plain'

local M = {}

local LEVEL = 0.975

local OBSERVED = [[/* anchors by machine */ SELECT s.base, p.version, c.params, t.id AS trial,
    coalesce(hex(a.series), 'attempt ' || a.id) AS series, coalesce(a.pass, 1) AS pass, g.phase,
    g.cache, coalesce(g.pass_med, g.med) AS med, g.grade, ]] .. hardware.FACTS .. [[
  FROM main.trial t JOIN main.sweep s ON s.id = t.sweep_id
  JOIN main.protocol p ON p.id = s.protocol_id JOIN main.config c ON c.id = t.config_id
  JOIN main.attempt a ON a.trial_id = t.id AND a.outcome = 'ok'
  JOIN main.timing g ON g.attempt_id = a.id AND g.cache <> 'first'
  JOIN main.env e ON e.id = a.env_id ]] .. hardware.JOINS .. [[
  WHERE t.sweep_id IN (%s) AND t.role = 'anchor' ORDER BY a.pass, a.id]]

--- What machines measured of the anchors of sweeps.
---@param st table store
---@param sweeps table[] each with id
---@param to_end boolean|nil also where a stop was asked for
---@return table list observations, each base, params, phase, med, series, machine ...
function M.observed(st, sweeps, to_end)
  local ids, ask = {}, to_end and st.db.query or st.db.look
  for i, sweep in ipairs(sweeps) do ids[i] = ('%d'):format(sweep.id) end
  local rows, grades, warm = ask(st.db, OBSERVED:format(table.concat(ids, ','))), {}, {}
  local function of(row) return row.series .. '\0' .. row.phase .. '\0' end
  for _, row in ipairs(rows) do
    grades[of(row) .. row.cache] = row.grade -- of all passes until then: the last one stays
    if row.cache == 'warm' then warm[of(row)] = true end
  end
  local list = {}
  for _, row in ipairs(rows) do
    -- what was disturbed has no say; of cold and warm caches the warm ones
    if grades[of(row) .. row.cache] ~= 'D' and (row.cache == 'warm' or not warm[of(row)])
      and row.med and row.med > 0 then
      row.key = hardware.key(row)
      list[#list + 1] = row
    end
  end
  return list
end

-- Observations of one machine by what is the same work: sweep, parameters, phase.
local function by_work(list, key)
  local found, order = {}, {}
  for _, row in ipairs(list) do
    if row.key == key then
      local work = table.concat({ row.base, tostring(row.version), row.params, row.phase }, '\0')
      if not found[work] then
        found[work] = { phase = row.phase, base = row.base, meds = {}, series = {}, n = 0 }
        order[#order + 1] = work
      end
      local each = found[work]
      each.meds[#each.meds + 1] = row.med
      if not each.series[row.series] then
        each.series[row.series], each.n = true, each.n + 1
      end
    end
  end
  table.sort(order)
  return found, order
end

--- How many times as long an anchor takes on one machine as on another.
---@param list_a table of M.observed
---@param key_a string of ridge.sweep.hardware.key
---@param list_b table
---@param key_b string
---@return table list each base, phase, ratio (time of b over time of a), lo, hi (nil below five
---  passes of each), a and b (anchors), a_passes, b_passes
function M.ratios(list_a, key_a, list_b, key_b)
  local as, order = by_work(list_a, key_a)
  local bs, out = by_work(list_b, key_b), {}
  for _, work in ipairs(order) do
    local a, b = as[work], bs[work]
    if b then
      local x = passes.interval(a.meds, { level = LEVEL })
      local y = passes.interval(b.meds, { level = LEVEL })
      local both = x.lo and y.lo
      out[#out + 1] = { base = a.base, phase = a.phase, ratio = y.med / x.med,
        lo = both and y.lo / x.hi or nil, hi = both and y.hi / x.lo or nil, a = a.n, b = b.n,
        a_passes = x.n, b_passes = y.n }
    end
  end
  return out
end

local function number_of(a, b)
  return a == b and plain.count(a, 'anchor') .. ' each'
    or ('%s and %d'):format(plain.count(b, 'anchor'), a)
end

local SHOWN = 3

--- Ratios in words: 'x1.43 (1.38 to 1.49) in fwd by 2 anchors each'.
---@param list table of M.ratios
---@return string text
function M.words(list)
  local words = {}
  for i, r in ipairs(list) do
    if i > SHOWN then break end
    words[i] = ('x%.3g (%s) in %s by %s, %d and %d passes'):format(r.ratio, r.lo
      and ('%.3g to %.3g'):format(r.lo, r.hi) or 'no interval: fewer than five passes',
      plain.line(r.phase), number_of(r.a, r.b), r.b_passes, r.a_passes)
  end
  if #list > SHOWN then words[#words + 1] = ('%d more'):format(#list - SHOWN) end
  return table.concat(words, '; ')
end

--- How far one machine is from another one, as a part of a sentence.
---@param list_a table of M.observed
---@param a table machine: key, kind, cpu, name
---@param list_b table
---@param b table
---@return string|nil text nil where no anchor was measured on both
function M.beside(list_a, a, list_b, b)
  local ratios = M.ratios(list_a, a.key, list_b, b.key)
  return #ratios > 0 and ('the anchor takes %s on %s beside %s'):format(M.words(ratios),
    plain.line(hardware.name(b)), plain.line(hardware.name(a))) or nil
end

M.NONE = 'no anchor was measured on both, so nothing says how far they are apart'

--- How far machines are apart, by the anchors of sweeps, as a part of a sentence.
---@param st table store
---@param sweeps table[] each with id
---@param kinds table machines of ridge.sweep.unlike, each with key, kind; the first one is what
---  others are held against
---@param to_end boolean|nil also where a stop was asked for
---@return string text
function M.text(st, sweeps, kinds, to_end)
  local list, words, first = M.observed(st, sweeps, to_end), {}, {}
  for _, each in ipairs(kinds) do
    local against = first[each.kind]
    if against then
      words[#words + 1] = M.beside(list, against, list, each)
    else
      first[each.kind] = each
    end
  end
  return #words > 0 and table.concat(words, '; ') or M.NONE
end

return M
