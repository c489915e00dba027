-- SPDX-License-Identifier: MIT
--- `ridge submit SCHEDULER RECIPE`: a job file that does a sweep on many machines, and the commands
--- that start it and bring its files together.

local args = require 'ridge.cli.args'
local plain = require 'ridge.plain'
local stored = require 'ridge.cli.stored'
local sweep = require 'ridge.cli.sweep'

local M = {}

M.summary = 'a sweep as an array job: ridge submit slurm widths.lua -n 64'
M.usage = 'ridge submit slurm|k8s|pbs|sge|parallel RECIPE -n TASKS [options] '
  .. "[-- recipe's own]"

-- Options of ridge sweep that go into the job file.
local PASSED = { 'param', 'where', 'samples', 'jobs', 'budget', 'quick', 'rigorous', 'isolate',
  'reuse', 'choices', 'calibrate' }

-- Options that only some schedulers have a word for.
local ONLY = {
  image = { k8s = true }, claim = { k8s = true }, hosts = { parallel = true },
  queue = { slurm = true, pbs = true, sge = true }, cpus = { slurm = true, pbs = true, k8s = true },
  per = { slurm = true, pbs = true, sge = true, k8s = true },
  scratch = { slurm = true, pbs = true, sge = true, parallel = true },
}

local SPEC = {
  about = [[
Writes an array job that splits the sweep of a recipe into TASKS parts, and prints the commands that
start it and merge what it measured. Slurm, Kubernetes (an indexed Job), PBS, Grid Engine or GNU
parallel place the tasks: one at a time on a machine, none on one that others compute on.

Each task writes a file of its own; the same task again, on whatever machine, goes on from it. One
that is slow or dead costs its share and holds no other up. The file is for reading and changing:
what your cluster wants besides stands at its head.

    ridge submit slurm mlp.lua -n 64 -P batch=1..1024*2 --time 2h
    ridge submit slurm widths.lua -n 16 --per skylake,zen4     # every point on each kind of machine
    ridge submit parallel widths.lua -n 8 --hosts a,b,c,d
    ridge submit k8s widths.lua -n 64 --image example.org/ridge --claim results

Without --per points are spread over whatever machines come, which are to be alike; an `anchor` of
the recipe is measured by every task. Databases are not safe on file systems of networks: where the
folder is on one, --scratch names one of each machine. Nothing is encrypted or asked who it is by
ridge; who may reach the machines is the scheduler's business.]],
  rest = 'slurm|k8s|pbs|sge|parallel RECIPE [-- options of the recipe]',
  { 'n', 8, 'tasks', short = 'n', integer = true, min = 2, max = 100000 },
  { 'out', '', 'the job file; the name of the recipe when left out; - prints it', short = 'o',
    writes = 'file' },
  { 'per', {}, "kinds of machines: Slurm's features, Kubernetes' instance types, else queues" },
  { 'time', '', 'limit of a task: 90s, 15m, 2h' },
  { 'cpus', 0, 'processors of a task; 0: as the scheduler likes', integer = true, min = 0,
    max = 65536 },
  { 'queue', '', 'partition or queue' },
  { 'scratch', '', "a folder of each machine's own, such as '$TMPDIR'" },
  { 'hosts', {}, 'machines that ssh reaches, for parallel; this one when left out' },
  { 'image', '', 'container with ridge in it, for k8s' },
  { 'claim', '', 'volume claim of the results, for k8s' },
}

for _, name in ipairs(PASSED) do
  for _, option in ipairs(sweep.SPEC) do
    if option[1] == name then SPEC[#SPEC + 1] = option end
  end
end

local function set(text) return text ~= '' and text or nil end

-- The words of ridge sweep that stand in the job file.
local function words_of(recipe, opt, said)
  local words = { recipe }
  for _, name in ipairs(PASSED) do
    local value, flag = opt[name], name:gsub('_', '-')
    if said[name] and value == true then
      words[#words + 1] = '--' .. flag
    elseif said[name] and value == false then
      words[#words + 1] = '--no-' .. flag
    elseif said[name] then
      for _, each in ipairs(type(value) == 'table' and value or { value }) do
        words[#words + 1] = name == 'param' and '-P' or '--' .. flag
        words[#words + 1] = tostring(each)
      end
    end
  end
  return words
end

-- A kind of machine as a part of a file's name.
local function in_file(kind) return (kind:gsub('[^%w-]', '-')) end

-- Files and folders of a job are named by its recipe, and stand where schedulers read words without
-- a shell's quotes, and Kubernetes keys of a map.
local NAMES = { parallel = { '^[^-]', 'that does not begin with a dash' },
  k8s = { '^[%w_][%w_.-]*$', "of letters, digits, '_', '.' and '-'" } }
local NAME = { '^[%w_\128-\255][%w_.+=@\128-\255-]*$', "of letters, digits and '_.+=@-'" }

-- What is wrong with the name of the recipe.
local function unfit(scheduler, name)
  local form = NAMES[scheduler] or NAME
  if name:find(form[1]) then return nil end
  return ("%s takes a recipe whose name is one %s: '%s' is none"):format(scheduler, form[2], name)
end

-- What is wrong with what was typed, whatever the recipe is.
local function refused(scheduler, opt, said, words)
  local files = require 'ridge.sweep.job_files'
  local known = {}
  for _, name in ipairs(files.NAMES) do known[name] = true end
  if not scheduler then return 'the scheduler is missing: slurm, k8s, pbs, sge or parallel' end
  if not known[scheduler] then
    return ("'%s' is none of %s%s"):format(scheduler, table.concat(files.NAMES, ', '),
      require('ridge.near').hint(scheduler, files.NAMES))
  end
  for _, option in ipairs(SPEC) do
    local name = option[1]
    if said[name] and ONLY[name] and not ONLY[name][scheduler] then
      local whom = {}
      for _, each in ipairs(files.NAMES) do
        if ONLY[name][each] then whom[#whom + 1] = each end
      end
      return ('--%s is for %s, not for %s'):format(name, table.concat(whom, ', '), scheduler)
    end
  end
  if scheduler == 'k8s' and (opt.image == '' or opt.claim == '') then
    return 'k8s: --image names a container that has ridge, --claim a volume claim for the results'
  end
  if opt.quick and opt.rigorous then return 'it is one of --quick and --rigorous' end
  for _, list in ipairs { words, opt.per, opt.hosts, { opt.out, opt.queue, opt.scratch, opt.image,
      opt.claim } } do
    for _, word in ipairs(list) do
      if word:find '%c' then return ('%q: a word of a job file has no line breaks'):format(word) end
    end
  end
  if opt.scratch:find '["`\\]' then
    return ("--scratch: '%s' is no folder for a shell between double quotes"):format(opt.scratch)
  end
  if not opt.queue:find '^[%w_.:,@+-]*$' then
    return ("--queue: '%s' is no name"):format(opt.queue)
  end
  local taken = {}
  for _, kind in ipairs(opt.per) do
    if not kind:find '^[%w_.:-]+$' then return ("--per: '%s' is no name"):format(kind) end
    local file = in_file(kind)
    if taken[file] then
      return ("--per: '%s' and '%s' would have one file"):format(taken[file], kind)
    end
    taken[file] = kind
  end
  for _, host in ipairs(opt.hosts) do
    if host == '' then return '--hosts: a machine without a name' end
  end
end

-- How many points the tasks have: the least, the most, and how many have none.
local function shares(plan, n)
  local canonical, identity = require 'ridge.store.canonical', require 'ridge.store.identity'
  local counts, anchors = {}, 0
  for i = 0, n - 1 do counts[i] = 0 end
  for _, trial in ipairs(plan.trials) do
    if trial.role == 'anchor' then
      anchors = anchors + 1
    else
      local i = identity.shard_of(canonical.hash(trial.params)) % n
      counts[i] = counts[i] + 1
    end
  end
  local least, most, none = math.huge, 0, 0
  for i = 0, n - 1 do
    least, most = math.min(least, counts[i]), math.max(most, counts[i])
    if counts[i] == 0 then none = none + 1 end
  end
  return { least = least, most = most, none = none, anchors = anchors, points = plan.n_points }
end

-- What a file has, as much of it as decides whether it is the text.
local function existing(path, text)
  local file = io.open(path, 'rb')
  text = file and (file:read(#text + 1) or '')
  if file then file:close() end
  return text
end

-- One job file, for one kind of machine or for all.
local function job_of(scheduler, opt, found, kind)
  local base = found.name:match '([^/]*)$':gsub('%.lua$', '')
  local name = kind and ('%s-%s'):format(base, in_file(kind)) or base
  local files = require 'ridge.sweep.job_files'
  local file = opt.out ~= '' and opt.out or ('%s.%s'):format(name, files.suffix(scheduler))
  local k8s = scheduler == 'k8s'
  return { name = name, kind = kind, file = file, parts = name .. '-parts', n = opt.n,
    ridge = k8s and 'ridge' or require('ridge.process').program(), cpus = opt.cpus,
    time = require('ridge.sweep.part').seconds(set(opt.time), 'time'), queue = set(opt.queue),
    scratch = k8s and '/scratch' or opt.scratch, hosts = opt.hosts, image = opt.image,
    claim = opt.claim }
end

local function say(form, ...) plain.print(form:format(...), '\n') end

-- seconds: of all points, as those took that are stored; why: nothing is known of that
local function tell_share(job, share, seconds, why)
  local anchors = share.anchors > 0 and (', and %s of the anchor'):format(
    plain.count(share.anchors, 'measurement')) or ''
  say('%s: %d tasks of the sweep %s, %s; a task has %d to %d, by hash%s', job.file, job.n,
    job.sweep, plain.count(share.points, 'point'), share.least, share.most, anchors)
  if share.none > 0 then
    say('  %s no point: fewer tasks do', share.none == 1 and '1 of them has'
      or ('%d of them have'):format(share.none))
  end
  if seconds then
    local duration = require('ridge.sweep.progress').duration
    say('  about %s on one machine like this, so about %s with %d of them', duration(seconds),
      duration(seconds * share.most / share.points), job.n)
  elseif why then
    say('  how long it takes is not known from what is stored here: %s', plain.line(why))
  end
end

local function tell_commands(scheduler, job, share, recipe)
  local files = require 'ridge.sweep.job_files'
  local start, again = files.commands(scheduler, job)
  local whole = files.quoted(job.name .. '.db')
  if scheduler == 'k8s' then
    say('  kubectl create configmap %s --from-file=%s', files.job_name(job), files.quoted(recipe))
  end
  say('  %s', start)
  say('  ridge merge %s %s/part-*.db%s', whole, files.quoted(job.parts),
    scheduler == 'k8s' and '    # on the volume of the claim' or '')
  say('  ridge sweeps --db %s    # says what is missing', whole)
  say('A task that is slow or dead costs its share, %s at most (%.1f %%); the others go on.',
    plain.count(share.most, 'point'), 100 * share.most / math.max(1, share.points))
  if again then
    say('Once more, it goes on from its file: %s', again)
  else
    say 'Kubernetes starts it again up to three times, and it goes on from its file.'
  end
  if share.anchors == 0 and not job.kind then
    say 'The recipe has no anchor, so nothing would show that its machines are unlike.'
  end
end

-- Declare the sweep of the recipe, without running it: {sweep =, seconds =}, or a status.
local function declared(found, opt, own)
  local recipe, override = require 'ridge.cli.recipe', require 'ridge.sweep.override'
  local stop, facts = {}, nil
  override.given = sweep.changes(opt)
  local function take(sw, given)
    local run = {}
    for key, value in pairs(given or {}) do run[key] = value end
    run.shard = '1/1'
    local ok, dry = pcall(sw.dry_run, sw, run)
    local why
    if not ok then -- another sweep of that name is stored here: tasks have files of their own
      why = (type(dry) == 'table' and dry.message or tostring(dry)):match '^[^\n]*'
      run.db = os.tmpname()
      os.remove(run.db)
      dry = sw:dry_run(run)
    end
    facts = { sweep = sw, seconds = dry.seconds, why = why }
  end
  function override.instead(sw, given)
    take(sw, given)
    error(stop, 0)
  end
  local status = recipe.run(found, own, { stop = stop, after = function(result)
    if not facts and require('ridge.sweep').is(result) then take(result) end
  end })
  override.instead, override.given = nil, nil
  return facts, status
end

--- Write the job file, and print the commands.
---@param argv string[]
---@return integer status
function M.main(argv)
  local ours, own = args.split(argv)
  return stored.run('submit', SPEC, ours, nil, function(opt, rest, _, said)
    local scheduler, name = rest[1], rest[2]
    if rest[3] then
      return stored.fail('submit', ("'%s' is too much; options of the recipe stand after --")
        :format(rest[3]))
    end
    local words = words_of(name or '', opt, said)
    for _, word in ipairs(own) do words[#words + 1] = word end
    local wrong = refused(scheduler, opt, said, words)
      or not name and 'a recipe is missing' or nil
    if wrong then return stored.fail('submit', wrong) end
    local found, reason = require('ridge.cli.recipe').find(name)
    if not found then return stored.fail('submit', reason) end
    wrong = unfit(scheduler, (found.name:match '[^/]*$'))
    if wrong then return stored.fail('submit', wrong) end
    if #opt.per > 1 and opt.out ~= '' then
      return stored.fail('submit', '-o names one file, and --per has a file for each kind')
    end
    require('ridge.sweep.part').seconds(set(opt.budget))
    local typed = { unpack(own) }
    local facts, status = declared(found, opt, own)
    if not facts then
      return status ~= 0 and status or stored.fail('submit',
        ('the recipe %s neither runs a sweep nor returns one'):format(name))
    end
    local files = require 'ridge.sweep.job_files'
    local jobs = {}
    for i, kind in ipairs(#opt.per > 0 and opt.per or { false }) do
      local job = job_of(scheduler, opt, found, kind or nil)
      job.sweep, job.own = facts.sweep.name, typed
      local recipe = scheduler == 'k8s' and found.path
        and '/recipe/' .. found.path:match '([^/]*)$' or name
      job.words = words_of(recipe, opt, said)
      job.text = files.text(scheduler, job)
      local old = opt.out ~= '-' and existing(job.file, job.text)
      if old and old ~= job.text then
        return stored.fail('submit', ("'%s' is there already with another text; -o names another "
          .. 'file'):format(job.file))
      end
      jobs[i] = job
    end
    if opt.out == '-' then
      io.stdout:write(jobs[1].text)
      return 0
    end
    for _, job in ipairs(jobs) do
      if scheduler ~= 'k8s' then require('ridge.store.place').make_folder(job.parts) end
      require('ridge.ffi.output').write(job.file, 'submit', function(output)
        output:write(job.text)
      end)
      local share = shares(facts.sweep.plan, opt.n)
      tell_share(job, share, facts.seconds, facts.why)
      tell_commands(scheduler, job, share, found.path or name)
    end
    if #jobs > 1 then
      say('All points are measured on each kind: ridge compare %s.db %s.db --match-all',
        files.quoted(jobs[1].name), files.quoted(jobs[2].name))
    end
    return 0
  end)
end

return M
