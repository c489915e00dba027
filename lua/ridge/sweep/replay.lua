-- SPDX-License-Identifier: MIT
--- A stored point measured once more, by the recipe that the database holds: is it still so?
--
-- The recipe's text runs in fresh processes, as far as its sweep; what stands in today's file does
-- not matter. Nothing is stored: what was measured stays what it was.

local blame = require 'ridge.blame'
local canonical = require 'ridge.store.canonical'
local hardware = require 'ridge.sweep.hardware'

local M = {}

-- Fresh processes at least: where memory happens to lie moves a median beyond one's interval.
local PROCESSES = 3

local TRIAL = [[/* trial to replay */ SELECT t.id, t.state, t.best_attempt, c.params,
    s.name AS sweep,
    s.args, s.seed, r.source, r.name AS recipe, p.json AS protocol, a.seed AS draw, e.device_id,
    m.cpu, m.sockets, m.cores, m.threads, m.isa, m.l1d, m.l2, m.l3, d.kind, d.name AS device, b.git
  FROM main.trial t JOIN main.sweep s ON s.id = t.sweep_id JOIN main.config c ON c.id = t.config_id
  JOIN main.recipe r ON r.id = s.recipe_id JOIN main.protocol p ON p.id = s.protocol_id
  LEFT JOIN main.attempt a ON a.id = t.best_attempt LEFT JOIN main.env e ON e.id = a.env_id
  LEFT JOIN main.machine m ON m.id = e.machine_id LEFT JOIN main.device d ON d.id = e.device_id
  LEFT JOIN main.build b ON b.id = e.build_id
  WHERE t.id = ?]]
local TIMINGS = [[/* timings to replay */ SELECT phase, med, ci_lo, ci_hi FROM main.timing
  WHERE attempt_id = ? AND cache <> 'first' ORDER BY id]]

--- What a database knows of a trial, as far as measuring it again needs it.
---@param st table store
---@param id integer
---@return table trial with timings by phase
function M.trial(st, id)
  local trial = st.db:row(TRIAL, id)
  if not trial then
    blame.raise(('there is no trial %d in %s'):format(id, st.path), 'EARG')
  end
  if trial.state ~= 'ok' then
    blame.raise(('trial %d is %s; there is nothing to compare with'):format(id, trial.state),
      'EARG')
  end
  trial.timings = {}
  for _, g in ipairs(st.db:look(TIMINGS, trial.best_attempt)) do
    trial.timings[g.phase] = trial.timings[g.phase] or g
  end
  if next(trial.timings) == nil then
    blame.raise(('trial %d was not timed; its metrics say what they were'):format(id), 'EARG')
  end
  trial.ceilings = trial.device_id and st:ceilings(trial.device_id) or {}
  return trial
end

local function verdict(before, now)
  if now.grade == 'D' then return 'open' end
  if not (before.ci_lo and now.ci_lo) then return 'open' end
  if now.ci_hi < before.ci_lo then return 'faster' end
  if now.ci_lo > before.ci_hi then return 'slower' end
  return 'agrees'
end

-- The machine here, where a trial was measured on an unlike one: by its processor, and by the name
-- of a device that is none.
local function unlike_here(trial, facts)
  local here = setmetatable({ kind = 'cpu' }, { __index = facts.machine })
  local there = setmetatable({ kind = 'cpu' }, { __index = trial })
  if hardware.key(here) ~= hardware.key(there) then return facts.machine.cpu end
  return trial.kind ~= 'cpu' and trial.device ~= facts.device.name and facts.device.name or nil
end

--- Measure a trial again and hold it against what is stored.
---@param trial table of M.trial
---@param origin table name, source, argv: what is run
---@param sw table the sweep that it declares, in this process
---@param opt table lab, progress (called with a line), mixed (also where an unlike machine measured
---  it: then the ratio is one of machines)
---@return table found each phase, before and now (med, ci_lo, ci_hi), ratio, verdict ('agrees',
---  'faster', 'slower': the intervals lie apart; 'open': it was disturbed, or one has no interval),
---  grade
function M.run(trial, origin, sw, opt)
  local args = canonical.encode(sw:arguments())
  if args ~= trial.args then
    blame.raise(('the recipe was called with other arguments: %s then, %s now; give them after --')
      :format(trial.args, args), 'EARG')
  end
  local other = trial.cpu and not opt.mixed and unlike_here(trial, opt.lab.facts())
  if other then
    blame.raise(('trial %d was measured on an unlike machine: %s, and here is %s; mixed (--mixed) '
      .. 'gives the ratio of the two machines'):format(trial.id, trial.kind == 'cpu' and trial.cpu
      or trial.device, other), 'EARG')
  end
  local params, protocol = canonical.decode(trial.params), canonical.decode(trial.protocol)
  protocol.processes = math.max(protocol.processes or 1, PROCESSES)
  local source = { module = 'ridge.cli.remote', spec = canonical.encode { origin = origin,
    point = params, seed = trial.draw or trial.seed } }
  local names, results = opt.lab.fresh(source, protocol, trial.ceilings, function(i, n)
    opt.progress(('process %d of %s'):format(i, tostring(n or '?')))
  end)
  local found = {}
  for i, name in ipairs(names) do
    local before, now = trial.timings[name], results[i]
    if before then
      found[#found + 1] = { phase = name, before = before, now = now, grade = now.grade,
        ratio = now.med / before.med, verdict = verdict(before, now) }
    end
  end
  if #found == 0 then
    blame.raise(('the recipe times nothing that trial %d has'):format(trial.id), 'EARG')
  end
  return found
end

return M
