-- SPDX-License-Identifier: MIT
-- `ridge submit`: the job files it writes are run here as their schedulers would run them, task by
-- task. scripts/check-slurm asks a real Slurm.

local approved = dofile 'tests/lua/approved.lua'
local folders = dofile 'tests/lua/store/folder.lua'

local ROOT = io.popen('pwd'):read '*l'
local LUA = io.popen('realpath -q "$RIDGE_LUA"'):read '*l' or ''

local RECIPE = [[
local ridge = require 'ridge'
local opt = ridge.args { { 'power', 2, 'of k' }, { 'wait', 0, 's of a point' } }
return ridge.sweep 'powers' {
  space = { k = { 1, 2 }, kind = { 'a', "b's" } },
  args = { power = opt.power },
  measure = function(p, _, m)
    if opt.wait > 0 then os.execute('sleep ' .. opt.wait) end
    m:metric('value', p.k ^ opt.power, { better = 'lower' })
  end,
}
]]

-- What each scheduler says to a task.
local TOLD = {
  slurm = function(i) return ('SLURM_ARRAY_TASK_ID=%d SLURM_ARRAY_TASK_COUNT=4 '
    .. 'SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=3 SLURM_SUBMIT_DIR=.'):format(i) end,
  pbs = function(i) return ('PBS_ARRAY_INDEX=%d PBS_O_WORKDIR=.'):format(i) end,
  sge = function(i) return ('SGE_TASK_ID=%d SGE_TASK_FIRST=1 SGE_TASK_LAST=4 '
    .. 'SGE_TASK_STEPSIZE=1'):format(i + 1) end,
  k8s = function(i) return ('JOB_COMPLETION_INDEX=%d'):format(i) end,
  parallel = function() return '' end,
}
local SUFFIX = { slurm = 'sbatch', pbs = 'pbs', sge = 'sge', k8s = 'yaml', parallel = 'sh' }

describe('ridge submit', function()
  local folder
  before_each(function()
    folder = folders.new()
    folders.put(folder .. '/powers.lua', RECIPE)
  end)
  after_each(function() folders.remove(folder) end)

  local function shell(command)
    return folders.run(('cd %s; export RIDGE_LOCKS=%s RIDGE_PROGRESS=off RIDGE_DB= '
      .. 'RIDGE_LUA=%s; unset SLURM_ARRAY_TASK_ID JOB_COMPLETION_INDEX PBS_ARRAY_INDEX '
      .. 'SGE_TASK_ID; %s'):format(folder, folder, LUA, command))
  end
  local function ridge(words) return shell(('%s/build/ridge %s'):format(ROOT, words)) end
  local function submit(scheduler, words)
    local text, status = ridge(('submit %s powers.lua -n 4 %s'):format(scheduler, words))
    assert.equal(0, status, text)
    return text
  end
  local function count(db)
    return tonumber((ridge("query powers 'count(value)' --as csv --db " .. db)):match '\n(%d+)\n')
  end

  -- The command that a task is, as the scheduler runs it.
  local function task(scheduler, i)
    local file = 'powers.' .. SUFFIX[scheduler]
    if scheduler == 'parallel' then return ('bash %s %d'):format(file, i + 1) end
    if scheduler == 'k8s' then
      local lines = {}
      for line in (folders.get(folder .. '/' .. file) .. '\n'):gmatch '([^\n]*)\n' do
        lines[#lines + 1] = line:match '^ ' and line:match '^          (.*)$'
      end
      local text = table.concat(lines, '\n'):match '(RIDGE=.-)\n%S*name: recipe'
        or table.concat(lines, '\n'):match '(RIDGE=.*exit "$status")'
      folders.put(folder .. '/task.sh', (text:gsub('/scratch', folder):gsub('/recipe/', '')))
      file = 'task.sh'
    end
    return ('%s %s %s'):format(TOLD[scheduler](i), scheduler == 'k8s' and 'sh' or 'bash', file)
  end

  it('writes files whose tasks are all of the sweep, whoever runs which', function()
    local words = [[-P k=1..10 --where "k < 10 or kind = \"b's\"" --no-calibrate]]
    local sum, parts = 0, {}
    for i, scheduler in ipairs { 'slurm', 'pbs', 'sge', 'k8s', 'parallel' } do
      submit(scheduler, ('%s %s -- --power 3'):format(words, scheduler == 'k8s'
        and '--image x --claim y' or scheduler == 'sge' and "--scratch '${HERE:-.}'" or ''))
      -- tasks 0, 1, 2, 3; and 4 of 4, which is 3 again
      local told = scheduler == 'sge' and 1 or scheduler == 'parallel' and 3 or i - 1
      local text, status = shell(('RIDGE=%s/build/ridge %s'):format(ROOT, task(scheduler, told)))
      assert.equal(0, status, text)
      parts[i] = count(('powers-parts/part-%d.db'):format(i - 1))
      assert.is_true(parts[i] > 0 and parts[i] < 19)
      sum = sum + parts[i]
    end
    assert.equal(parts[4], parts[5])
    assert.equal(19, sum - parts[5])
    local text, status = ridge 'merge powers.db powers-parts/part-*.db'
    assert.equal(0, status, text)
    assert.equal(19, count 'powers.db')
    assert.matches('\n1729\n', (ridge -- 729 + 1000
      [[query powers 'sum(value)' --where "k >= 9 and kind = \"b's\"" --as csv --db powers.db]]))
    assert.equal('', (shell 'ls -d ridge.*/ 2>/dev/null')) -- nothing is left in between
  end)

  it('a task that is told to end keeps what it has, and goes on from there', function()
    submit('slurm', "--scratch . -P k=1..20 --no-calibrate -- --wait 0.2")
    -- until it has measured some
    local text = shell(([[%s & pid=$!
      while kill -0 $pid; do
        n=$(%s/build/ridge query powers 'count(value)' --as csv --db ridge.*/part.db 2>&1 | tail -1)
        case $n in [1-9]*) break ;; esac
      done 2>/dev/null
      kill $pid; wait $pid; echo status $?]]):format(task('slurm', 1):gsub('^', 'env '), ROOT))
    assert.matches('status 143', text)
    local before = count 'powers-parts/part-1.db'
    assert.is_true(before and before >= 1)
    local _, status = shell(task('slurm', 1))
    assert.equal(0, status)
    assert.is_true(count 'powers-parts/part-1.db' > before)
  end)

  it('writes what was approved', function()
    local said = {}
    for _, line in ipairs { 'slurm', 'slurm --per a --time 90m --cpus 8 --scratch /tmp -o -',
        'slurm --per a,b', 'pbs --cpus 8 --queue fast --time 1d', 'sge --scratch /tmp --time 1h',
        'parallel --hosts a,b --time 2h',
        'k8s --image example.org/ridge --claim out --cpus 4 --time 2h --per m7i.large' } do
      said[#said + 1] = '$ ridge submit ' .. line
      said[#said + 1] = submit(line:match '^%S+', line:match '^%S+(.*)$')
    end
    for name in folders.list(folder):gmatch '%S+' do
      if name:find '^powers[.-]' and not name:find '^powers%.lua$' and not name:find 'parts$' then
        said[#said + 1] = ('--- %s\n%s'):format(name, folders.get(folder .. '/' .. name))
      end
    end
    approved.check('cli/submit_files', (table.concat(said, '\n'):gsub(ROOT:gsub('%p', '%%%0'),
      'ROOT')))
  end)

  it('says how many points the smallest and the largest task have', function()
    local least, most = math.huge, 0
    for i = 1, 4 do
      local text = ridge(('sweep powers.lua -P k=1..20 --shard %d/4 --dry-run'):format(i))
      local n = tonumber(text:match '(%d+) to run')
      least, most = math.min(least, n), math.max(most, n)
    end
    assert.is_true(least < most)
    assert.matches(('40 points; a task has %d to %d, by hash\n.*costs its share, %d points at most')
      :format(least, most, most), (submit('slurm', '-P k=1..20')))
  end)

  it('names jobs as schedulers take them, and limits that are no shorter than was asked', function()
    local files = require 'ridge.sweep.job_files'
    local function job(name, time)
      return { name = name, n = 2, parts = 'p', ridge = 'ridge', words = {}, own = {}, scratch = '',
        cpus = 0, time = time, sweep = 's', hosts = {} }
    end
    for name, wanted in pairs { ['a_b.c'] = 'ridge-a-b-c', [('x'):rep(60)] = 'ridge-'
      .. ('x'):rep(44), [('y'):rep(40) .. '----z'] = 'ridge-' .. ('y'):rep(40), A = 'ridge-a' } do
      assert.equal(wanted, files.job_name(job(name))) -- ends with a letter, 50 of them at most
    end
    for _, each in ipairs { { 59.2, '00:01:00', 60 }, { 3599.01, '01:00:00', 3600 },
        { 90, '00:01:30', 90 }, { 360000, '100:00:00', 360000 } } do
      assert.matches('--time=' .. each[2] .. '\n', files.text('slurm', job('a', each[1])), 1, true)
      assert.matches('walltime=' .. each[2] .. '\n', files.text('pbs', job('a', each[1])), 1, true)
      assert.matches(('h_rt=%d\n'):format(each[3]), files.text('sge', job('a', each[1])), 1, true)
      assert.matches((' --timeout %d '):format(each[3]), files.text('parallel', job('a', each[1])))
    end
  end)

  it('keeps a file that somebody has changed', function()
    submit('slurm', '')
    submit('slurm', '') -- the same is no change
    folders.put(folder .. '/powers.sbatch', 'mine\n')
    local text, status = ridge 'submit slurm powers.lua -n 4'
    assert.equal(1, status)
    assert.matches("'powers.sbatch' is there already with another text", text)
    assert.equal('mine\n', folders.get(folder .. '/powers.sbatch'))
  end)

  it('refuses names that no job file can hold', function()
    for _, name in ipairs { 'a b', '-x', 'p%a', "it's" } do
      folders.put(('%s/%s.lua'):format(folder, name), RECIPE)
    end
    for _, each in ipairs {
      { 'slurm "a b.lua"', "slurm takes a recipe whose name .*: 'a b.lua' is none" },
      { 'pbs "a b.lua"', "pbs takes .*: 'a b.lua' is none" },
      { 'sge "it\'s.lua"', "sge takes .*: 'it's.lua' is none" },
      { 'slurm p%a.lua', "slurm takes .*: 'p%%a.lua' is none" }, -- %a is the task
      { 'k8s --image i --claim c "a b.lua"', "k8s takes .*: 'a b.lua' is none" },
      { 'parallel ./-x.lua', "parallel takes .*begin with a dash: '%-x.lua' is none" },
      { 'slurm powers.lua --per a.b,a-b', "'a.b' and 'a%-b' would have one file" },
      { 'slurm powers.lua --per a,a', "'a' and 'a' would have one file" },
      { 'parallel powers.lua --hosts a,,b', 'a machine without a name' },
      { 'slurm powers.lua --queue "it\'s"', "'it's' is no name" },
    } do
      local text, status = ridge('submit ' .. each[1])
      assert.equal(1, status, each[1])
      assert.matches(each[2], text)
    end
    assert.not_equal(0, select(2, shell 'ls -d ./*-parts')) -- nothing was made
    -- a shell's quotes hold them where only shells read
    local text, status = ridge 'submit parallel "a b.lua" -n 2'
    assert.equal(0, status, text)
    for i = 1, 2 do
      text, status = shell(('bash "a b.sh" %d'):format(i))
      assert.equal(0, status, text)
    end
    assert.equal(0, select(2, ridge('merge all.db "a b-parts/part-1.db" "a b-parts/part-2.db"')))
    assert.equal(4, count 'all.db')
  end)

  it('looks only as far into a file as its text is long', function()
    local text, status = ridge 'submit slurm powers.lua -n 4 -o /dev/zero'
    assert.equal(1, status)
    assert.matches("'/dev/zero' is there already with another text", text)
  end)

  it('says how long it takes, or why that is not known', function()
    assert.is_nil(submit('slurm', ''):find('how long', 1, true)) -- nothing is stored
    folders.put(folder .. '/other.lua', (RECIPE:gsub('args = {', 'args = { other = 1,')))
    assert.equal(0, select(2, ridge 'sweep other.lua --no-calibrate --db results/ridge.db'))
    local text = submit('slurm', '-o again.sbatch')
    assert.matches('how long it takes is not known from what is stored here: .*powers', text)
  end)

  it('says how many tasks have nothing to do', function()
    assert.matches('4 points; a task has 0 to 1, by hash\n  4 of them have no point',
      (submit('slurm', '-n 8')))
    -- where two of five have none, one of the other three has two of the four: the first one
    assert.matches('4 points; a task has 0 to 2, by hash\n  2 of them have no point',
      (submit('slurm', '-n 5 -o five.sbatch')))
  end)
end)
