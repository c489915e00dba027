-- SPDX-License-Identifier: MIT
--- What all-reduces take between the ranks there are, as two numbers for each number of ranks:
--- alpha, the time of an empty one, and beta, the time of a byte more.

local blame = require 'ridge.blame'
local clock = require 'ridge.store.clock'
local minutes = require 'ridge.measure.minutes'
local passes = require 'ridge.measure.passes'
local worlds = require 'ridge.world'

local M = {}

--- Sizes of messages in bytes.
M.SIZES = { 4, 256, 4096, 16384, 65536, 262144, 1048576, 4194304 }

--- The sweep that what was measured is kept in.
M.NAME = 'net'

--- The line through times of several sizes that is off by the least share of each: both of its
--- numbers are positive, or it does not begin above the time of the smallest size.
-- >> network.fit({ 4, 1000 }, { 104, 1100 })
---@param bytes number[] at least two, ascending
---@param times number[] ns
---@return number alpha ns
---@return number beta ns a byte
function M.fit(bytes, times)
  -- weights 1 / t^2: what is made small is the sum of squares of (alpha + beta b) / t - 1
  local s0, s1, s2, y0, y1 = 0, 0, 0, 0, 0
  for i, b in ipairs(bytes) do
    local t = times[i]
    s0, s1, s2 = s0 + 1 / t ^ 2, s1 + b / t ^ 2, s2 + b ^ 2 / t ^ 2
    y0, y1 = y0 + 1 / t, y1 + b / t
  end
  local d = s0 * s2 - s1 ^ 2
  local alpha, beta = (y0 * s2 - y1 * s1) / d, (y1 * s0 - y0 * s1) / d
  if alpha <= 0 then
    alpha = times[1]
    beta = (y1 - alpha * s1) / s2
  end
  if beta <= 0 then alpha, beta = y0 / s0, 0 end
  return alpha, beta
end

-- By bytes the median of its rounds.
local function medians(text)
  local lists, sizes = {}, {}
  for bytes, ns in text:gmatch '\n(%d+) %d+ ([%d.]+)' do
    bytes = tonumber(bytes)
    if not lists[bytes] then
      lists[bytes] = {}
      sizes[#sizes + 1] = bytes
    end
    table.insert(lists[bytes], tonumber(ns))
  end
  table.sort(sizes)
  local times = {}
  for i, bytes in ipairs(sizes) do
    local list = lists[bytes]
    table.sort(list)
    times[i] = (list[math.ceil(#list / 2)] + list[math.floor(#list / 2) + 1]) / 2
  end
  return sizes, times
end

--- What several starts of the ranks say together: of each the medians of its rounds are fitted, and
--- the intervals are those of the starts, with what they have not seen of other minutes: who reads
--- them adds up messages of now with computing of another day.
---@param texts string[] what ranks wrote, one a start
---@param around table|nil times (of the starts, seconds), source (of ridge.measure.minutes)
---@return table found library, alpha and beta (med, lo, hi; ns, ns a byte), sizes: list of bytes,
---  med, lo, hi (ns); off: the largest share by which the line misses the median of a size;
---  sd_minutes: the part of all intervals that other minutes are
function M.of(texts, around)
  local alphas, betas, by_size, library, bytes = {}, {}, {}, nil, nil
  for i, text in ipairs(texts) do
    local sizes, times = medians(text)
    if #sizes < 2 then
      blame.raise('net: ranks that were started have written no times', 'EIO', 'net')
    end
    library, bytes = text:match '^[^\n]*', sizes
    alphas[i], betas[i] = M.fit(sizes, times)
    betas[i] = math.max(betas[i], 1e-9) -- for logarithms
    for k, t in ipairs(times) do
      by_size[k] = by_size[k] or {}
      by_size[k][i] = t
    end
  end
  local function of_starts(list)
    return minutes.add(passes.interval(list), around and around.source, around and around.times)
  end
  local found = { library = library, alpha = of_starts(alphas), beta = of_starts(betas),
    sizes = {}, off = 0 }
  found.sd_minutes = found.alpha.lo and found.alpha.sd_minutes
  for k, list in ipairs(by_size) do
    local own = of_starts(list)
    found.sizes[k] = { bytes = bytes[k], med = own.med, lo = own.lo, hi = own.hi }
    found.off = math.max(found.off, math.abs((found.alpha.med + found.beta.med * bytes[k])
      / own.med - 1))
  end
  return found
end

-- Gigabytes a second of a time of a byte.
local function rate(ns) return 1 / ns end

--- Put what was found onto a point of a sweep.
---@param m table point of a sweep
---@param found table of `of`
function M.record(m, found)
  local lower, higher = { better = 'lower', unit = 'us' }, { better = 'higher', unit = 'GB/s' }
  local function put(name, med, lo, hi, opt)
    m:metric(name, med, opt)
    if lo then
      m:metric(name .. '_lo', math.min(lo, hi), { unit = opt.unit })
      m:metric(name .. '_hi', math.max(lo, hi), { unit = opt.unit })
    end
  end
  local a, b = found.alpha, found.beta
  put('alpha_us', a.med / 1e3, a.lo and a.lo / 1e3, a.lo and a.hi / 1e3, lower)
  put('gb_s', rate(b.med), b.lo and rate(b.lo), b.lo and rate(b.hi), higher)
  m:metric('fit_off', found.off, { better = 'lower' })
  if found.sd_minutes then m:metric('between_minutes', found.sd_minutes) end
  for _, s in ipairs(found.sizes) do
    put(('us_%d'):format(s.bytes), s.med / 1e3, s.lo and s.lo / 1e3, s.lo and s.hi / 1e3, lower)
  end
  m.simulated = worlds.plays(found.library)
end

--- The sweep of a measurement.
---@param opt table ranks (list), sizes, starts, rounds, launch: function(ranks, words) that starts
---  them and returns the text that they wrote; source (of ridge.measure.minutes)
---@return table sweep
function M.sweep(opt)
  return require('ridge.sweep').sweep(M.NAME) {
    space = { ranks = opt.ranks },
    args = { sizes = table.concat(opt.sizes, ','), starts = opt.starts, rounds = opt.rounds,
      operation = 'all_reduce', dtype = 'f32', how = 'ranks of ridge launch on one machine',
      processors = opt.processors },
    any_name = true,
    measure = function(p, _, m)
      local texts, times = {}, {}
      for i = 1, opt.starts do
        times[i] = clock.now_us() / 1e6
        texts[i] = opt.launch(p.ranks, opt.sizes, opt.rounds)
      end
      M.record(m, M.of(texts, { times = times, source = opt.source }))
    end,
  }
end

local ROWS = [[/* nets */ SELECT s.name AS sweep, p.num AS ranks, a.began AS began,
  a.flags AS flags, t.id AS trial, e.machine_id AS machine, m.name AS name, m.value AS value
  FROM main.sweep s JOIN main.trial t ON t.sweep_id = s.id
  JOIN main.attempt a ON a.id = t.best_attempt JOIN main.metric m ON m.attempt_id = a.id
  JOIN main.param p ON p.config_id = t.config_id AND p.name = 'ranks'
  LEFT JOIN main.env e ON e.id = a.env_id
  WHERE s.base = ?1 AND a.outcome = 'ok' AND (?2 IS NULL OR e.machine_id = ?2)
  ORDER BY a.began, a.id]]

--- What is stored of this machine, by the number of ranks; of several measurements the newest.
---@param st table store open for reading
---@param machine table|nil facts of another machine that is asked for
---@return table list of {ranks, alpha, beta (med, lo, hi; ns), off, sd_minutes, began, sweep,
---  simulated}, by ranks
---@return integer elsewhere points that other machines have measured: a merged file has them
function M.stored(st, machine)
  local by, list = {}, {}
  local here = st:find_machine(machine or require('ridge.sweep.device').lab().facts().machine)
  local rows, elsewhere, seen = st.db:query(ROWS, M.NAME, here or -1), 0, {}
  for _, row in ipairs(st.db:query(ROWS, M.NAME, nil)) do
    if row.machine ~= here and not seen[row.trial] then
      seen[row.trial], elsewhere = true, elsewhere + 1
    end
  end
  for _, row in ipairs(rows) do
    local each = by[row.ranks]
    if not each or each.began ~= row.began then
      each = { ranks = row.ranks, began = row.began, sweep = row.sweep, found = {},
        simulated = row.flags:find('SIMULATED', 1, true) ~= nil }
      by[row.ranks] = each
    end
    each.found[row.name] = row.value
  end
  for _, each in pairs(by) do
    local m = each.found
    each.found = nil
    local function alpha(x) return x and x * 1e3 end
    local function beta(x) return x and 1 / x end
    each.alpha = { med = alpha(m.alpha_us), lo = alpha(m.alpha_us_lo), hi = alpha(m.alpha_us_hi) }
    each.beta = { med = beta(m.gb_s), lo = beta(m.gb_s_hi), hi = beta(m.gb_s_lo) }
    each.off, each.sd_minutes = m.fit_off, m.between_minutes
    list[#list + 1] = each
  end
  table.sort(list, function(x, y) return x.ranks < y.ranks end)
  return list, elsewhere
end

--- That other machines have measured some of it, as a part of a sentence; nothing where none has.
---@param elsewhere integer of `stored`
---@return string text
function M.elsewhere(elsewhere)
  return elsewhere > 0 and (' (%d measured on other machines %s not of this one)'):format(elsewhere,
    elsewhere == 1 and 'is' or 'are') or ''
end

-- -- Text -----------------------------------------------------------------------------------------

local function with(med, lo, hi, form)
  local text = form:format(med)
  return lo and ('%s (%s to %s)'):format(text, form:format(lo), form:format(hi)) or text
end

--- What people read of it.
---@param list table of `stored`
---@param processors integer of this machine
---@return string text
function M.text(list, processors)
  local rows = { { 'ranks', 'alpha, us', '1/beta, GB/s', 'line off by', 'ranks a processor' } }
  for _, each in ipairs(list) do
    local a, b = each.alpha, each.beta
    rows[#rows + 1] = { ('%d'):format(each.ranks), with(a.med / 1e3, a.lo and a.lo / 1e3,
      a.lo and a.hi / 1e3, '%.4g'), with(1 / b.med, b.lo and 1 / b.hi, b.lo and 1 / b.lo, '%.3g'),
      ('%.0f %%'):format(100 * each.off), ('%.3g'):format(each.ranks / processors),
      each.simulated and 'SIMULATED: it says nothing of any network' or nil }
  end
  local widths, lines = {}, {}
  for _, row in ipairs(rows) do
    for i, text in ipairs(row) do widths[i] = math.max(widths[i] or 0, #text) end
  end
  for k, row in ipairs(rows) do
    local out = {}
    for i, text in ipairs(row) do out[i] = text .. (' '):rep(widths[i] - #text) end
    lines[k] = (table.concat(out, '  '):gsub(' +$', ''))
  end
  local most = 0
  for _, each in ipairs(list) do most = math.max(most, each.sd_minutes or 0) end
  if most > 0 then
    lines[#lines + 1] = ('Intervals hold up to %s for what other minutes differ by.'):format(
      minutes.percent(most))
  end
  lines[#lines + 1] = 'An all-reduce of b bytes takes alpha + beta b. Ranks are processes of this '
    .. 'machine, and messages go'
  lines[#lines + 1] = ('through its memory: nothing is said of a network. It has %d %s, which more '
    .. 'ranks share.'):format(processors, processors == 1 and 'processor' or 'processors')
  return table.concat(lines, '\n')
end

return M
