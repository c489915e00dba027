-- SPDX-License-Identifier: MIT
--- Job files: a sweep as an array job, for schedulers that people already run.
--
-- Each task measures its own shard into a file of its own, alone on its machine, and the same task
-- again goes on from that file. Nothing here places a process.

local M = {}

local SAFE = '^[%w_./=,:@%%+-]+$'

--- A word as a shell reads it.
---@param word string
---@return string quoted
function M.quoted(word)
  return word:find(SAFE) and word or "'" .. word:gsub("'", "'\\''") .. "'"
end

local function joined(words)
  local list = {}
  for i, word in ipairs(words) do list[i] = M.quoted(word) end
  return table.concat(list, ' ')
end

local function hours(seconds)
  seconds = math.ceil(seconds)
  return ('%02d:%02d:%02d'):format(math.floor(seconds / 3600), math.floor(seconds / 60) % 60,
    seconds % 60)
end

-- A name that a scheduler takes: letters, digits and dashes, a letter first.
local function named(job, longest)
  return (('ridge-' .. job.name:gsub('[^%w-]', '-')):sub(1, longest):gsub('%-+$', ''))
end

-- The lines of a task, whose number among the files is an expression of the shell. On a file system
-- of a network a database is not safe: the task works in a folder of its machine, and what it has
-- goes to its file each five minutes and at its end, SIGTERM included.
local function task_lines(job, index)
  local part = ('%s/part-%s.db'):format(M.quoted(job.parts), index)
  local sweep = function(db)
    return ('"$RIDGE" sweep %s --shard auto/%d --db %s%s'):format(joined(job.words), job.n, db,
      #job.own > 0 and ' -- ' .. joined(job.own) or '')
  end
  local lines = { ('RIDGE=${RIDGE:-%s}'):format(M.quoted(job.ridge)) }
  local function add(...) for _, line in ipairs { ... } do lines[#lines + 1] = line end end
  if job.scratch == '' then
    add('mkdir -p ' .. M.quoted(job.parts), sweep(part))
    return lines
  end
  add(('mkdir -p %s'):format(M.quoted(job.parts)), 'part=' .. part,
    ('work=$(mktemp -d "%s/ridge.XXXXXX") || exit 1'):format(job.scratch),
    'if [ -e "$part" ]; then cp "$part" "$work/part.db" || exit 1; fi',
    'keep() {',
    '  [ -e "$work/part.db" ] || return 0',
    '  rm -f "$work/copy.db"',
    '  "$RIDGE" db backup "$work/copy.db" --db "$work/part.db" >/dev/null &&',
    '    cp "$work/copy.db" "$part.new" && mv "$part.new" "$part"',
    '}',
    '(while sleep 300 >/dev/null 2>&1; do keep; done) & copier=$!',
    sweep '"$work/part.db"' .. ' & measuring=$!',
    'trap \'kill "$measuring" 2>/dev/null\' TERM INT',
    'wait "$measuring"; status=$?',
    'while kill -0 "$measuring" 2>/dev/null; do wait "$measuring"; status=$?; done',
    'kill "$copier"; wait "$copier" 2>/dev/null',
    'keep || status=1',
    'rm -rf "$work"',
    '(exit "$status")')
  return lines
end

-- A script whose head is comments that a scheduler reads.
local function script(job, mark, options, before, index, after)
  local lines = { '#!/bin/bash' }
  for _, option in ipairs(options) do lines[#lines + 1] = mark .. ' ' .. option end
  lines[#lines + 1] = ('# %s: each of %d tasks measures its part; written by ridge submit'):format(
    job.sweep, job.n)
  lines[#lines + 1] = before
  for _, line in ipairs(task_lines(job, index)) do lines[#lines + 1] = line end
  lines[#lines + 1] = after
  return table.concat(lines, '\n') .. '\n'
end

local function add_if(list, value, form)
  if value and value ~= '' and value ~= 0 then list[#list + 1] = form:format(value) end
end

local KINDS = {}

KINDS.slurm = { suffix = 'sbatch', start = 'sbatch %s', again = 'sbatch --array=%d %s', first = 0,
  text = function(job)
    local options = { '--job-name=' .. named(job, 60), ('--array=0-%d'):format(job.n - 1),
      '--exclusive', '--requeue', '--open-mode=append', ('--output=%s/task-%%a.log'):format(
        job.parts) }
    if job.scratch ~= '' then options[#options + 1] = '--signal=B:TERM@60' end
    add_if(options, job.cpus, '--cpus-per-task=%d')
    add_if(options, job.time and hours(job.time), '--time=%s')
    add_if(options, job.queue, '--partition=%s')
    add_if(options, job.kind, '--constraint=%s')
    return script(job, '#SBATCH', options, 'cd "${SLURM_SUBMIT_DIR:-.}" || exit 1',
      '"$SLURM_ARRAY_TASK_ID"')
  end }

KINDS.pbs = { suffix = 'pbs', start = 'qsub %s', again = 'qsub -J %d-%d %s', first = 0,
  text = function(job)
    local options = { '-N ' .. named(job, 15), ('-J 0-%d'):format(job.n - 1), '-r y',
      job.cpus > 0 and ('-l select=1:ncpus=%d'):format(job.cpus) or '-l select=1',
      '-l place=excl', '-j oe', ('-o %s/'):format(job.parts) }
    add_if(options, job.time and hours(job.time), '-l walltime=%s')
    add_if(options, job.kind or job.queue, '-q %s')
    return script(job, '#PBS', options, 'cd "${PBS_O_WORKDIR:-.}" || exit 1', '"$PBS_ARRAY_INDEX"')
  end }

KINDS.sge = { suffix = 'sge', start = 'qsub %s', again = 'qsub -t %d %s', first = 1,
  text = function(job)
    local options = { '-N ' .. named(job, 60), ('-t 1-%d'):format(job.n), '-cwd', '-S /bin/bash',
      '-r y', '-j y', ('-o %s/'):format(job.parts) }
    if job.scratch ~= '' then options[#options + 1] = '-notify' end
    add_if(options, job.time and math.ceil(job.time), '-l h_rt=%d')
    add_if(options, job.kind or job.queue, '-q %s')
    local before = '# add what your site calls a whole machine, such as #$ -l exclusive=true'
    if job.scratch ~= '' then
      before = before .. "\ntrap 'kill -TERM $$' USR1 USR2   # -notify: before it is killed"
    end
    return script(job, '#$', options, before, '"$SGE_TASK_ID"')
  end }

KINDS.parallel = { suffix = 'sh', start = 'bash %s', again = 'bash %s', first = 1,
  text = function(job)
    local hosts = ''
    for _, host in ipairs(job.hosts) do
      hosts = ('%s --sshlogin %s'):format(hosts, M.quoted(host))
    end
    local limit = job.time and (' --timeout %d'):format(math.ceil(job.time)) or ''
    local before = ([[
# Without a word it starts the tasks, one at a time on each machine; again: those that did not end.
if [ $# -eq 0 ]; then
  mkdir -p %s
  exec parallel --jobs 1%s --quote --workdir "$PWD" --joblog %s/log \
    --resume-failed --retries 3%s --tag --line-buffer bash "$0" {} ::: $(seq %d)
fi
unset SLURM_ARRAY_TASK_ID JOB_COMPLETION_INDEX PBS_ARRAY_INDEX SGE_TASK_ID]]):format(
      M.quoted(job.parts), hosts, M.quoted(job.parts), limit, job.n)
    local text = script(job, '#', {}, before, '"$1"',
      '# points that failed are a result: not again\n'
      .. 'status=$?; [ "$status" -eq 2 ] || exit "$status"')
    return (text:gsub('%-%-shard auto/', '--shard "$1"/'))
  end }

-- -- Kubernetes -----------------------------------------------------------------------------------

-- YAML's strings between double quotes are those of JSON.
local function yaml(text)
  return '"' .. text:gsub('[\\"]', '\\%0') .. '"'
end

local JOB = [[
# @SWEEP@: each of @N@ tasks measures its part; written by ridge submit
apiVersion: batch/v1
kind: Job
metadata:
  name: @NAME@
spec:
  completionMode: Indexed
  completions: @N@
  parallelism: @N@
  backoffLimitPerIndex: 3   # a machine that breaks holds no other task up; needs Kubernetes 1.29
  podReplacementPolicy: Failed   # two pods of one task never write one file
  template:
    metadata:
      labels: {ridge-sweep: @NAME@}
    spec:
      restartPolicy: Never
@LIMIT@      affinity:   # one task on a machine: who shares it measures the others, too
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels: {ridge-sweep: @NAME@}
@SELECTOR@      containers:
      - name: sweep
        image: @IMAGE@
        workingDir: /results
        command: [/bin/sh, -c]
        args:
        - |
@SCRIPT@
@RESOURCES@        volumeMounts:
        - {name: recipe, mountPath: /recipe}
        - {name: results, mountPath: /results}
        - {name: scratch, mountPath: /scratch}
      volumes:
      - name: recipe
        configMap: {name: @NAME@}
      - name: results
        persistentVolumeClaim: {claimName: @CLAIM@}
      - name: scratch
        emptyDir: {}
]]

KINDS.k8s = { suffix = 'yaml', start = 'kubectl apply -f %s', first = 0,
  text = function(job)
    local lines = task_lines(job, '"$JOB_COMPLETION_INDEX"')
    lines[#lines + 1] = '# points that failed are a result: not again'
    lines[#lines + 1] = 'status=$?; [ "$status" -eq 2 ] || exit "$status"'
    for i, line in ipairs(lines) do lines[i] = (' '):rep(10) .. line end
    local name = M.job_name(job)
    local parts = { SWEEP = job.sweep, N = ('%d'):format(job.n), NAME = name,
      IMAGE = yaml(job.image), CLAIM = yaml(job.claim), SCRIPT = table.concat(lines, '\n'),
      LIMIT = job.time and ('      activeDeadlineSeconds: %d\n'):format(math.ceil(job.time)) or '',
      SELECTOR = job.kind and ('      nodeSelector: {node.kubernetes.io/instance-type: %s}\n')
        :format(yaml(job.kind)) or '',
      RESOURCES = job.cpus > 0 and ('        resources:\n          requests: {cpu: "%d"}\n'
        .. '          limits: {cpu: "%d"}\n'):format(job.cpus, job.cpus) or '' }
    return (JOB:gsub('@(%u+)@', parts))
  end }

--- The schedulers that files are written for.
M.NAMES = { 'slurm', 'k8s', 'pbs', 'sge', 'parallel' }

--- The name of a job of Kubernetes.
---@param job table
---@return string name
function M.job_name(job) return (named(job, 50):lower()) end

---@class ridge.sweep.Job
---@field sweep string its name
---@field name string of the job: the recipe's, and the kind of machine where there are several
---@field file string its file's name
---@field parts string the folder of the tasks' files
---@field ridge string the program
---@field words string[] of ridge sweep: the recipe, and what is changed of it
---@field own string[] options of the recipe
---@field n integer tasks
---@field scratch string folder of each machine, as a shell reads it between double quotes; '': none
---@field cpus integer of a task; 0: nobody says
---@field time number|nil seconds
---@field queue string|nil
---@field kind string|nil kind of machine
---@field hosts string[] GNU parallel
---@field image string|nil Kubernetes
---@field claim string|nil Kubernetes

--- The text of a job file.
---@param scheduler string of NAMES
---@param job ridge.sweep.Job
---@return string text
function M.text(scheduler, job) return KINDS[scheduler].text(job) end

--- How a file of a scheduler ends.
---@param scheduler string
---@return string suffix
function M.suffix(scheduler) return KINDS[scheduler].suffix end

--- The commands that start a job, and one of its tasks once more.
---@param scheduler string
---@param job ridge.sweep.Job
---@return string start
---@return string|nil again
function M.commands(scheduler, job)
  local kind, file = KINDS[scheduler], M.quoted(job.file)
  local start, last = kind.start:format(file), job.n - 1 + kind.first
  local again
  if scheduler == 'slurm' or scheduler == 'sge' then
    again = kind.again:format(last, file)
  elseif scheduler == 'pbs' then
    again = kind.again:format(last - 1, last, file)
  elseif scheduler == 'parallel' then
    again = start
  end
  return start, again
end

return M
