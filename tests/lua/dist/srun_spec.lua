-- SPDX-License-Identifier: MIT
--- Ranks inside a job of Slurm, where srun is played by tests/lua/dist/srun; a real one runs in
--- scripts/check-slurm-ranks.

local ranks = require 'tests.lua.dist.ranks'
local output, lines = ranks.output, ranks.lines

local CHILD = 'tests/lua/dist/child.lua'
local function several(name, f) ranks.several({ it = it, pending = pending }, name, f) end

describe('in a job of Slurm', function()
  local folder
  local JOB = 'SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=1 SLURM_NTASKS=3 '

  setup(function()
    folder = output 'mktemp -d':match '[^\n]+'
    output('ln -s $PWD/tests/lua/dist/srun ' .. folder)
  end)
  teardown(function() os.execute('rm -rf ' .. folder) end)

  local function launch(env, words, before)
    return output(('%sPATH=%s:$PATH %s%s ./ridge launch %s'):format(before or '', folder, JOB, env,
      words))
  end

  several('srun starts as many ranks as the job has tasks, or as many as are asked for', function()
    local said = folder .. '/said'
    local text, status = launch('SLURM_CPUS_PER_TASK=5 SRUN_SAID=' .. said, CHILD .. ' collectives')
    assert.equal(0, status, text)
    for r = 0, 2 do assert.equal(1, lines(text, ('^%%[%d%%] collectives 3 3$'):format(r)), text) end
    local env = io.open(said):read '*a'
    assert.matches('OMPI_MCA_btl=self,vader\n.*OMPI_MCA_mpi_yield_when_idle=1\n', env)
    assert.matches('OMP_NUM_THREADS=5\n', env)
    -- what the user has set stays
    text, status = launch('OMPI_MCA_btl=self,tcp SRUN_SAID=' .. said, CHILD .. ' collectives')
    assert.equal(0, status, text)
    assert.matches('OMPI_MCA_btl=self,tcp\n.*OMPI_MCA_mpi_yield_when_idle=1\n',
      io.open(said):read '*a')
    text, status = launch('SLURM_CPUS_ON_NODE=1', '-n 2 ' .. CHILD .. ' collectives')
    assert.equal(0, status, text)
    assert.equal(2, lines(text, 'collectives 2 2$'), text)
    text, status = launch('', '-n 4 ' .. CHILD .. ' collectives')
    assert.equal(1, status)
    assert.matches('ridge launch: srun: error: Unable to create step for job 7: More processors '
      .. 'requested than permitted\nsrun ended with status 1\n', text)
  end)

  several('ranks that fail are named, what they say of it stays on its stream', function()
    local text, status = output(('{ PATH=%s:$PATH %s./ridge launch -n 2 %s raise 2>%s/err; }')
      :format(folder, JOB, CHILD, folder))
    assert.equal(1, status)
    assert.equal('', text)
    text = io.open(folder .. '/err'):read '*a'
    assert.matches('%[1%] error: no luck\n%[1%]    at tests/lua/dist/child.lua:%d+', text)
    assert.matches('ridge launch: rank 1 ended with status 1\n', text)
    text, status = launch('', '-n 2 ' .. CHILD .. ' killed')
    assert.equal(137, status)
    assert.matches('ridge launch: rank 1 was ended by signal 9\n', text)
    text, status = launch('', ('-n 2 --restarts 1 --wait 0.01 tests/lua/dist/restart_child.lua %s '
      .. '4 20:1:killed'):format(folder))
    assert.equal(0, status, text)
    assert.matches('signal 9; restart 1 of 1, with 2 ranks', text)
    assert.matches('start 1 of 2 ranks at epoch 1\n.*end after 52 steps', text)
  end)

  several('nothing outlives a launcher that was killed', function()
    output(([[sh -c '
      PATH=%s:$PATH %s ./ridge launch -n 2 %s forever >%s/said & it=$!
      while [ "$(grep -c started %s/said)" != 2 ]; do sleep 0.1; done
      kill -KILL $it']]):format(folder, JOB, CHILD, folder, folder))
    -- for ever, where one outlives it
    while ranks.left(CHILD .. ' forever') > 0 do os.execute 'sleep 0.1' end
  end)

  it('says what it cannot do', function()
    for _, each in ipairs {
      { '', '--hosts a:2,b:2 ' .. CHILD, '%-%-hosts is for ssh, and this is the job 7 of Slurm' },
      { 'SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=3', CHILD,
        'srun started 3 copies of ridge launch: start one' },
      { "SRUN_PLUGINS='none pmi2'", CHILD, 'this Slurm starts no ranks: srun %-%-mpi=list has no '
        .. 'pmix .Debian.s slurm%-wlm%-basic%-plugins has it., and says: MPI plugin types are... '
        .. 'none' },
      { 'PATH=/nowhere', CHILD, 'this is the job 7 of Slurm, and there is no srun on the PATH; '
        .. '%-%-by mpirun starts' },
      { 'SLURM_NTASKS=abc', CHILD, "SLURM_NTASKS is 'abc', which is no number of tasks" },
      { 'SLURM_NTASKS=0', CHILD, "SLURM_NTASKS is '0', which is no number of tasks" },
      { 'SLURM_NTASKS=600', CHILD, 'the job 7 of Slurm has 600 tasks, and 512 ranks are the most' },
      { 'SLURM_CPUS_PER_TASK=1.5', CHILD,
        "SLURM_CPUS_PER_TASK is '1.5', which is no number of processors" },
      { 'SLURM_JOB_NUM_NODES=0', CHILD, "SLURM_JOB_NUM_NODES is '0', which is no number of mach" },
      { 'SLURM_NTASKS=2', '--min-ranks 3 ' .. CHILD, '%-%-min%-ranks is 3, and there are 2 ranks' },
    } do
      local text, status = launch(each[1], each[2])
      assert.equal(1, status)
      assert.matches('ridge launch: ' .. each[3], text)
    end
    local text, status = output('./ridge launch --by srun ' .. CHILD)
    assert.equal(1, status)
    assert.matches('%-%-by srun: this is no job of Slurm; sbatch or salloc makes one', text)
  end)

  several('mpirun starts ranks where it is asked to', function()
    local text, status = launch('SLURM_NTASKS=abc', '--by mpirun -n2 ' .. CHILD .. ' collectives')
    assert.equal(0, status, text)
    assert.equal(2, lines(text, 'collectives 2 2$'), text)
    text, status = launch('SLURM_JOB_ID=', '-n2 ' .. CHILD .. ' collectives') -- not in a job
    assert.equal(0, status, text)
    assert.equal(2, lines(text, 'collectives 2 2$'), text)
  end)

  it('srun is told what the job is like', function()
    local srun = require 'ridge.launch.srun'
    local function words(job)
      return table.concat(srun.words { n = 3, job = job, folder = '/f', at = { 'a' },
        rest = { 's' }, programs = { setpriv = 'setpriv', srun = 'srun' } }, ' ')
    end
    assert.matches(' %-%-overlap ', words { step = true }) -- that step holds all processors
    assert.is_nil(words({}):find('--overlap', 1, true))
    assert.matches(' %-%-cpus%-per%-task=3 ', words { of_task = 3 })
    assert.equal('self,vader', srun.env(1).OMPI_MCA_btl)
    assert.is_nil(srun.env(2).OMPI_MCA_btl) -- memory reaches no other node
    -- three ranks on two nodes: one has two of them
    local here = tonumber(require('ridge.ffi.lib').rg_processors())
    assert.equal(math.max(1, math.floor(here / 2)), srun.threads({ nodes = 2 }, 3))
    assert.equal(1, srun.threads({ nodes = 1, of_node = 1 }, 1))
    assert.equal(7, srun.threads({ nodes = 2, of_task = 7 }, 3))
  end)

  it('copies that know nothing of each other are refused, and not trained one by one', function()
    for _, name in ipairs { 'SLURM_STEP_NUM_TASKS', 'PMI_SIZE' } do
      local one = ("%s=%%d ./ridge -e 'print(ridge.dist.init { backend = \"%%s\" })'"):format(name)
      local text, status = output(one:format(2, 'auto'))
      assert.equal(1, status)
      assert.matches('2 copies of this process were started that know nothing of each other; '
        .. 'ridge launch, mpirun of Open MPI and srun %-%-mpi=pmix start ranks', text)
      assert.matches('rank 0 of 1, alone', (output(one:format(2, 'none'))))
      assert.matches('rank 0 of 1, alone', (output(one:format(1, 'auto'))))
    end
  end)
end)
