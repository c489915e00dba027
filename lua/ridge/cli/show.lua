-- SPDX-License-Identifier: MIT
--- `ridge show`: everything that is known of one trial.

local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'
local verdicts = require 'ridge.cli.verdicts'

local M = {}

M.summary = 'everything that is known of one trial: ridge show 4711'
M.usage = 'ridge show TRIAL [--db FILE]'

local SPEC = {
  about = [[
Parameters, timings with their intervals and flags, the median of each pass and where the variation
comes from, metrics, where and with what it ran, each try, what a failed one printed, and the
samples of all passes in the order they were taken. Numbers of trials are in `ridge top` and
`ridge query SWEEP trial`.

    ridge show 4711]],
  rest = 'TRIAL', most = 1,
  stored.DB,
}

local BARS = { '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█' }

--- Numbers as a line of bars, at most `width` of them: means of neighbours.
---@param list number[]
---@param width integer
---@return string
function M.sparkline(list, width)
  local n = math.min(width, #list)
  local means, low, high = {}, math.huge, -math.huge
  for i = 1, n do
    local from, to = math.floor((i - 1) * #list / n) + 1, math.floor(i * #list / n)
    local sum = 0
    for k = from, to do sum = sum + list[k] end
    means[i] = sum / (to - from + 1)
    low, high = math.min(low, means[i]), math.max(high, means[i])
  end
  local out = {}
  for i, v in ipairs(means) do
    local share = high > low and (v - low) / (high - low) or 0
    out[i] = BARS[math.min(#BARS, math.floor(share * #BARS) + 1)]
  end
  return table.concat(out)
end

local function time(ns) return ns and verdicts.time(ns) or '-' end

local function sorted_pairs(t)
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = k end
  table.sort(keys)
  local i = 0
  return function()
    i = i + 1
    return keys[i], t[keys[i]]
  end
end

local TRIAL = [[/* trial */ SELECT t.*, s.name AS sweep, c.params, a.outcome FROM trial t
  JOIN sweep s ON s.id = t.sweep_id JOIN config c ON c.id = t.config_id
  LEFT JOIN attempt a ON a.id = t.best_attempt WHERE t.id = ?]]
local ATTEMPTS = [[/* attempts */ SELECT * FROM attempt WHERE trial_id = ? ORDER BY n]]
local ENV = [[/* where */ SELECT m.cpu, m.os, m.kernel, m.virt, b.ridge, b.git, b.compiler, b.flags,
  e.governor, e.cpuset, e.vars FROM env e JOIN machine m ON m.id = e.machine_id
  JOIN build b ON b.id = e.build_id WHERE e.id = ?]]

local count = plain.count

-- Where the variation comes from, the fast state, the ratio to the partner, and each pass.
local function passes_of(st, say, trial, g)
  local results, record = require 'ridge.store.results', require 'ridge.store.record'
  say('', ('med over %s in %s, %s of %s%s'):format(count(g.passes, 'pass'),
    count(g.procs or 1, 'process'), count(g.n, 'window'), count(g.inner, 'call'),
    g.ci_lo and '' or '; too few for an interval'))
  local text = require('ridge.measure.passes').sentence { between = g.sd_between,
    within = g.sd_within }
  if text then say('', text) end
  local minutes = require 'ridge.measure.minutes'
  if g.sd_minutes and g.sd_minutes > 0 and g.ci_lo then
    local lo, hi = minutes.own(g.med, g.ci_lo, g.ci_hi, g.sd_minutes)
    say('', ('of the interval %s is drift%s: what other minutes differ by; within this sweep '
      .. '[%s .. %s]'):format(minutes.percent(g.sd_minutes), minutes.said(g.ci_how)
      and ', ' .. minutes.said(g.ci_how) or '', time(lo), time(hi)))
  end
  if g.quiet then
    say('', ('quiet %s%s: in the fast state of the machine'):format(time(g.quiet), g.quiet_lo
      and ('  [%s .. %s]'):format(time(g.quiet_lo), time(g.quiet_hi)) or ''))
  end
  if g.ratio then
    say('', ('%.4g of its partner%s, by the ratios within the passes'):format(g.ratio, g.ratio_lo
      and (' [%.4g .. %.4g]'):format(g.ratio_lo, g.ratio_hi) or ''))
  end
  local list = {}
  for i, pass in ipairs(results.passes(st, trial.id)) do
    local own = pass.timings[record.key(g.phase, g.cache)]
    list[i] = own and time(own.med) or '-'
  end
  say('', 'passes  ' .. table.concat(list, '  '))
end

-- The interval of a time, of old rows from 0 on: some reach below, where no time is.
local function interval(lo, hi)
  if not (lo and hi) then return 'no interval' end
  return ('[%s .. %s]'):format(time(math.max(lo, 0)), time(math.max(hi, 0)))
end

local function timings(st, say, trial)
  local results = require 'ridge.store.results'
  for _, g in ipairs(st.db:look(
      '/* timings */ SELECT * FROM timing WHERE attempt_id = ? ORDER BY id', trial.best_attempt)) do
    if g.cache == 'first' then
      say(g.phase .. ' first', time(g.med) .. ', the very first call')
    else
      say(('%s %s'):format(g.phase, g.cache), ('%s  %s  p95 %s  p99 %s  %s%s'):format(
        time(g.med), interval(g.ci_lo, g.ci_hi), time(g.p95), time(g.p99), 'grade ' .. (g.grade
        or '-'), g.flags ~= '' and ' (' .. g.flags .. ')' or ''))
      if g.ci_lo and g.ci_lo < 0 then
        say('', ('stored as [%s .. %s]; no time is below 0'):format(time(g.ci_lo), time(g.ci_hi)))
      end
      if g.passes then
        passes_of(st, say, trial, g)
      else
        say('', ('%s of %s in %s, %s; limits %s; protocol 1'):format(count(g.n, 'sample'),
          count(g.inner, 'call'), g.rounds and count(g.rounds, 'round') or '? rounds',
          g.stop and 'stopped by ' .. g.stop or 'no reason kept', g.thresholds or '-'))
      end
      local s = results.samples(st, trial.id, g.phase, g.cache)
      if s and #s.dur > 0 then say('', M.sparkline(s.dur, 60)) end
    end
  end
end

-- The state, in the word that queries have for it: a point with a result is ok from its first pass
-- on, though passes of it are still to come.
local function state_of(trial)
  local open = trial.state == 'pending' or trial.state == 'running'
  if not open or trial.outcome ~= 'ok' then return trial.state end
  return trial.state == 'running' and 'ok, and another pass is running'
    or 'ok, and another pass is pending'
end

local function print_trial(st, id)
  local canonical = require 'ridge.store.canonical'
  local trial = st.db:row(TRIAL, id)
  if not trial then
    require('ridge.blame').raise(('there is no trial %d in %s'):format(id, st.path), 'EARG')
  end
  local function say(key, value)
    plain.print((('%-16s %s'):format(key, value):gsub('%s+$', '')), '\n')
  end
  say('trial', ('%d of %s, %s%s'):format(trial.id, trial.sweep, state_of(trial),
    trial.reused == 1 and ', measured for another sweep' or ''))
  for name, value in sorted_pairs(canonical.decode(trial.params)) do
    say('  ' .. name, tostring(value))
  end
  if trial.implied_by then say('implied by', 'trial ' .. trial.implied_by) end
  if trial.best_attempt then
    timings(st, say, trial)
    for _, m in ipairs(st.db:look(
        '/* metrics */ SELECT * FROM metric WHERE attempt_id = ? ORDER BY name',
        trial.best_attempt)) do
      say(m.name, ('%s%s'):format(m.value and ('%.6g'):format(m.value) or 'nan',
        m.unit and ' ' .. m.unit or ''))
    end
  end
  for _, a in ipairs(st.db:look(ATTEMPTS, id)) do
    say(a.pass and ('try %d, pass %d'):format(a.n, a.pass) or 'try ' .. a.n,
      ('%s, %s%s'):format(a.outcome, os.date('%Y-%m-%d %H:%M:%S', a.began / 1e6),
      a.ended and (', %.2f s'):format((a.ended - a.began) / 1e6) or ''))
    if a.message then say('', a.message) end
    if a.printed and a.printed ~= '' then say('', a.printed:gsub('\n', '\n' .. (' '):rep(17))) end
    local env = a.env_id and a.id == trial.best_attempt and st.db:row(ENV, a.env_id)
    if env then
      say('on', ('%s, %s, %s'):format(env.cpu, env.os or '?', env.kernel or '?'))
      say('with', ('ridge %s%s, %s, %s'):format(env.ridge, env.git and ' ' .. env.git or '',
        env.compiler or '?', env.vars))
    end
  end
end

--- Print a trial.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('show', SPEC, argv, 'read', function(_, rest, st)
    local id, reason = stored.trial(rest[1])
    if not id then return stored.fail('show', reason) end
    print_trial(st, id)
  end)
end

return M
