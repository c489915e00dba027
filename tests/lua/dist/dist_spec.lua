-- SPDX-License-Identifier: MIT
--- Training on several processes: collectives, DataParallel and the loader over 1, 2 and 4 ranks,
--- ranks that end, wait or differ, and the launcher. Skipped where MPI is not.

local ranks = require 'tests.lua.dist.ranks'
local ridge = require 'ridge'

local CHILD = 'tests/lua/dist/child.lua'

local function there(path)
  local file = io.open(path, 'rb')
  if file then file:close() end
  return file ~= nil
end

local function output(command)
  local pipe = assert(io.popen(command .. ' 2>&1; echo "status $?"'))
  local text = pipe:read '*a'
  pipe:close()
  local body, status = text:match '^(.*)status (%d+)\n$'
  return body, tonumber(status)
end

local function launch(n, what, folder)
  return output(('./ridge launch -n %d %s %s %s'):format(n, CHILD, what, folder or ''))
end

local function failure(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

-- A test that needs several processes; pending where there can be none.
local function several(name, f)
  if not there 'build/libridge_mpi.so' then
    pending(name .. ' (no libopenmpi-dev when ridge was built: scripts/deps mpi)', function() end)
  elseif not output('command -v mpirun'):find '/' then
    pending(name .. ' (no mpirun on the PATH: scripts/deps mpi)', function() end)
  else
    it(name, f)
  end
end

-- How many processes run the child.
local function left(what) return ranks.left(CHILD .. ' ' .. what) end

describe('ridge.dist', function()
  it('is rank 0 of 1 without a launcher', function()
    local world = ridge.dist.init { timeout = 5 }
    assert.same({ 0, 1, 0, 1, 'none' }, { world.rank, world.size, world.local_rank,
      world.local_size, world.library })
    assert.equal('dist.World(rank 0 of 1, alone)', tostring(world))
    assert.equal(world, ridge.dist.init())
    local x = ridge.randn(3, 2)
    for _, op in ipairs { 'sum', 'mean', 'max', 'min', 'prod' } do
      assert.is_true(ridge.dist.all_reduce(x, op):equal(x))
      assert.is_true(ridge.dist.reduce_scatter(x, op):equal(x))
    end
    assert.is_true(ridge.dist.broadcast(x):equal(x))
    assert.is_true(ridge.dist.all_gather(x):equal(x:view(1, 3, 2)))
    assert.is_true(ridge.dist.same(ridge.nn.Linear(3, 2)))
    ridge.dist.barrier()
  end)

  it('trains alone as without it', function()
    local function net() return ridge.nn.Linear(5, 3, { seed = 1 }) end
    local x, a, b = ridge.randn(4, 5), net(), net()
    a(x):sum():backward()
    ridge.dist.DataParallel(b, { bucket_mb = 1e-6 })(x):sum():backward()
    for i, p in ipairs(a:parameters()) do
      assert.is_true(p.tensor.grad:equal(b:parameters()[i].tensor.grad))
    end
  end)

  it('goes on behind a backward pass that failed', function()
    local net = ridge.dist.DataParallel(ridge.nn.Linear(3, 2, { seed = 1 }), { bucket_mb = 1e-6 })
    local fails
    local first = net.module:parameters()[1].tensor
    local x = ridge.ones(2, 3)
    net(x):sum():backward()
    first:on_gradient(function() if fails then error 'no luck' end end)
    fails = true
    assert.matches('no luck', failure(function() net(x):sum():backward() end))
    fails = false
    net.module.weight:zero_grad()
    net(x * 3):sum():backward()
    assert.equal(6, net.module.weight.grad[1][1]:item())
  end)

  it('forgets a net that nobody holds', function()
    local weak = setmetatable({}, { __mode = 'v' })
    local function use()
      local net = ridge.dist.DataParallel(ridge.nn.Linear(3, 2))
      net(ridge.ones(2, 3)):sum():backward()
      weak[1], weak[2] = net, net.module
    end
    use()
    ridge.nn.Sequential(ridge.nn.Linear(3, 2))(ridge.ones(2, 3)) -- now the last net that was called
    for _ = 1, 4 do collectgarbage() end
    assert.is_true(weak[1] == nil and weak[2] == nil)
  end)

  it('refuses what is wrong at the line of the caller', function()
    local dist, net = ridge.dist, ridge.nn.Linear(3, 2)
    for _, each in ipairs {
      { 'option backend is .gloo.; it is one of auto, mpi, nccl, none', dist.init,
        { backend = 'gloo' } },
      { 'no launcher .ridge launch.* started this process', dist.init, { backend = 'nccl' } },
      { 'option timeout is 0; it lies between', dist.init, { timeout = 0 } },
      { 'no launcher .ridge launch.* started this process', dist.init, { backend = 'mpi' } },
      { "'means' is none of max, mean, min, prod, sum .did you mean 'mean'", dist.all_reduce,
        ridge.ones(2), 'means' },
      { "'product' is none of max, mean, min, prod, sum$", dist.reduce_scatter, ridge.ones(2),
        'product' },
      { 'there is no all_reduce, product of 2 bool', dist.all_reduce, ridge.ones(2):gt(0), 'prod' },
      { 'there is no all_reduce, mean of 2 i64', dist.all_reduce,
        ridge.ones(2):to 'i64', 'mean' },
      { 'a tensor is expected', dist.all_gather, 3 },
      { 'there is no rank 1; ranks are 0 to 0', dist.broadcast, ridge.ones(2), 1 },
      { 'has no rows to part', dist.reduce_scatter, ridge.tensor(1) },
      { 'a module or a list of tensors is expected', dist.same, 3 },
      { 'a module is expected', dist.DataParallel, 3 },
      { "unknown option 'bucket' .did you mean 'bucket_mb'", dist.DataParallel, net,
        { bucket = 1 } },
      { 'convert the module before', function() dist.DataParallel(net):to 'bf16' end },
      { 'other processes cannot be part of a plan', ridge.capture, dist.all_reduce,
        ridge.ones(2) },
      { 'world is what ridge.dist.init gives', ridge.data.Loader, { ridge.ones(4, 2) },
        { world = {} } },
    } do
      assert.matches(each[1], failure(unpack(each, 2)))
    end
  end)
end)

describe('ranks', function()
  local folder

  setup(function()
    folder = output 'mktemp -d':match '[^\n]+'
  end)
  teardown(function() os.execute('rm -rf ' .. folder) end)

  local function saved(name, n)
    local list = {}
    for key, x in pairs(ridge.nn.load(('%s/%s%d'):format(folder, name, n)):state()) do
      list[key] = x
    end
    return list
  end

  local function apart(a, b)
    local most, count = 0, 0
    for key, x in pairs(a) do
      count = count + 1
      most = math.max(most, (x - b[key]):abs():max():item())
    end
    assert.is_true(count >= 4)
    return most
  end

  local function lines(text, pattern)
    local n = 0
    for line in text:gmatch '[^\n]+' do
      if line:find(pattern) then n = n + 1 end
    end
    return n
  end

  several('train as one does on the whole batch, in the same bits on all', function()
    for _, n in ipairs { 1, 2, 4 } do
      local text, status = launch(n, 'all', folder)
      assert.equal(0, status, text)
      assert.equal(n, lines(text, '%] collectives ' .. n .. ' ' .. n), text)
      for _, name in ipairs { 'start', 'running', 'dropout' } do
        assert.equal(n, lines(text, '%] ' .. name .. ' true'), text)
      end
      assert.equal(n, lines(text, '%] parts true true'), text) -- nobody's, and one rank's own
      assert.equal(2 * n, lines(text, '%] parts [ab] true'), text)
      for _, name in ipairs { 'mlp', 'lenet', 'buckets', 'behind', 'bf16', 'f16' } do
        assert.equal(n, lines(text, '%] ' .. name .. ' true'), text)
      end
      assert.equal(n, lines(text, '%] mlp true  2906'), text)   -- every row once an epoch
      assert.equal(n, lines(text, '%] lists 3 5.weight'), text) -- as backward completes them
      assert.equal(0, apart(saved('buckets', n), saved('behind', n)))
      assert.equal(0, apart(saved('buckets', n), saved('mlp', n)))
      assert.is_true(apart(saved('bf16', n), saved('mlp', n)) > 0)
      assert.is_true(apart(saved('bf16', n), saved('mlp', n)) < 0.2)
      assert.equal(n, lines(text, '%] rounded bf16 true'), text)
      assert.equal(n, lines(text, '%] rounded f16 true'), text)
      for _, name in ipairs { 'mlp', 'lenet' } do
        assert.is_true(apart(saved(name, n), saved(name, 1)) <= 1e-5)
      end
    end
    assert.is_true(apart(saved('mlp', 4), saved('mlp', 1)) > 0) -- the sums have another order
  end)

  several('that differ are refused with the first difference', function()
    local text = launch(3, 'different') -- the last one, and not the first of the others
    for _, sentence in ipairs {
      'ranks differ: on rank 0 tensor 1 is weight, f32%[2,3%], and on rank 2 tensor 1 is weight, '
        .. 'f32%[4,3%]',
      'ranks differ: on rank 0 there are 2 tensors, and on rank 2 there are 6 tensors',
      'ranks differ: on rank 0 option overlap is false, and on rank 2 option overlap is true',
      'ranks differ: on rank 0 there are 4 rows, and on rank 2 there are 5 rows',
      'collective %d+ is all_reduce, sum of [23] f32 on rank [012] and all_reduce, sum of [23] f32',
    } do
      assert.equal(3, lines(text, '%] different false.*' .. sentence), text)
    end
  end)

  several('end with one that raises, and with its status', function()
    local text, status = launch(2, 'raise')
    assert.equal(1, status)
    assert.matches('%[1%] error: no luck\n%[1%]    at tests/lua/dist/child.lua:%d+', text)
    assert.matches('ridge launch: rank 1 ended with status 1\n', text)
    text, status = launch(2, 'status')
    assert.equal(7, status)
    assert.matches('ridge launch: rank 1 ended with status 7\n', text)
  end)

  several('end with one that is killed', function()
    local text, status = launch(2, 'killed')
    assert.equal(137, status)
    assert.matches('ridge launch: rank 1 was ended by signal 9\n', text)
  end)

  it('name one that the kernel ended for want of memory', function()
    local group = '/sys/fs/cgroup/memory/ridge_dist_spec'
    if not there 'build/libridge_mpi.so' or output 'id -u' ~= '0\n'
        or select(2, output('mkdir ' .. group)) ~= 0 then
      pending 'needs root and a control group of memory (version 1)'
      return
    end
    local text, status = output(([[sh -c 'echo 400M >%s/memory.limit_in_bytes &&
      echo $$ >%s/tasks && ./ridge launch -n 2 %s memory']]):format(group, group, CHILD))
    while select(2, output('rmdir ' .. group)) ~= 0 do os.execute 'sleep 0.1' end
    assert.equal(137, status, text)
    assert.matches('rank 1 was ended by the kernel, which had no memory left %(signal 9%)', text)
  end)

  several('say who does not come, and since which collective', function()
    local text, status = launch(2, 'late')
    assert.equal(5, status)
    assert.matches('%[0%] error: dist.all_reduce: rank 1 has not come to collective %d+ '
      .. '%(all_reduce, mean of 3 f32%) within 1.5 s, and had come to all before', text)
    assert.matches('child.lua:%d+ +dist.all_reduce', text)
  end)

  several('say who is stopped or in a loop, in which step, each of those that wait', function()
    local text, status = launch(3, 'stopped')
    assert.equal(5, status)
    assert.equal(2, lines(text, '%[[02]%] error: dist.barrier: rank 1 has not come to collective'))
    assert.matches('ranks 0 and 2 waited in vain for rank 1, which was stopped\n', text)
    assert.equal(0, left 'stopped')
    text, status = launch(3, 'loops')
    assert.equal(5, status)
    assert.equal(2, lines(text, '%[[02]%] error: dist.DataParallel: rank 1 has not come to '
      .. 'collective %d+ %(all_reduce, weighted mean of 20 f32%) in step 3 within 1.5 s'))
    assert.matches('ranks 0 and 2 waited in vain for rank 1, which did not come\n', text)
    assert.equal(0, left 'loops')
    text, status = output(('./ridge launch -n 2 --silence 2 %s parted'):format(CHILD))
    assert.equal(5, status)
    assert.matches('ridge launch: rank 1 was stopped for more than 2 s\n', text)
    assert.equal(0, left 'parted')
  end)

  several('may be stopped for less than that, however often', function()
    local text, status = output(('./ridge launch -n 2 --silence 3 %s paused'):format(CHILD))
    assert.equal(0, status, text)
    assert.equal(2, lines(text, '%] both$'), text)
  end)

  several('have the options of Open MPI that the user has set', function()
    for set, told in pairs {
      [''] = 'self,vader 1 none',
      ['OMPI_MCA_btl=self,tcp'] = 'self,tcp 1 none',
      ['OMPI_MCA_mpi_yield_when_idle=0'] = 'self,vader 0 none',
      ['OMPI_MCA_btl_vader_single_copy_mechanism=emulated'] = 'self,vader 1 emulated' } do
      local text, status = output(('%s ./ridge launch -n 2 %s options'):format(set, CHILD))
      assert.equal(0, status, text)
      assert.equal(2, lines(text, '%] options ' .. told .. '$'), text)
    end
  end)

  several('leave what the user has set in a file of Open MPI', function()
    local home = output 'mktemp -d':match '[^\n]+'
    os.execute(('mkdir %s/.openmpi'):format(home))
    local file = assert(io.open(home .. '/.openmpi/mca-params.conf', 'wb'))
    file:write('# mine\n mpi_yield_when_idle=0\n#btl = self\n')
    file:close()
    for _, how in ipairs { 'HOME=' .. home,
      ('OMPI_MCA_mca_base_param_files=/nowhere,%s/.openmpi/mca-params.conf'):format(home) } do
      local text, status = output(('%s ./ridge launch -n 2 %s options'):format(how, CHILD))
      assert.equal(0, status, text)
      assert.equal(2, lines(text, '%] options self,vader [^1]%w* none$'), text)
    end
    os.execute('rm -rf ' .. home)
  end)

  several('are known to the launcher by a word that no command line has', function()
    local text, status = output(('./ridge launch -n 2 %s lines'):format(CHILD))
    assert.equal(0, status, text)
    assert.equal(2, lines(text, '%] lines true false $'), text)
  end)

  several('go on from a checkpoint in the bits of a training that nobody disturbed', function()
    local function train(n, given, opts)
      local own = output 'mktemp -d':match '[^\n]+'
      local text, status = output(('./ridge launch -n %d --wait 0.01 %s %s %s 4 %s'):format(n,
        opts or '', 'tests/lua/dist/restart_child.lua', own, given or ''))
      os.execute('rm -rf ' .. own)
      return text:match 'end after 28 steps.*bits (%x+)', text, status
    end
    local wanted = train(4)
    assert.is_string(wanted)
    local bits, text, status = train(4, '10:3:killed', '--restarts 2')
    assert.equal(0, status, text)
    assert.equal(wanted, bits)
    assert.matches('rank 3 was ended by signal 9; restart 1 of 2, with 4 ranks, in 0.01 s\n', text)
    assert.matches('%[0%] start 1 of 4 ranks at epoch 1\n', text)
    bits, text = train(4, '10:0:error', '--restarts 1')
    assert.equal(wanted, bits, text)
    bits, text, status = train(4, '1:2:killed', '--restarts 1')
    assert.equal(137, status)
    assert.is_nil(bits)
    assert.matches('signal 9; no step of training had ended, so this is not started again', text)
    bits, text, status = train(4, '10:0:killed')
    assert.equal(137, status)
    assert.is_nil(bits)
    assert.matches('rank 0 was ended by signal 9\n', text)
  end)

  several('end where mpirun does nothing any more', function()
    local text, code = output(([[sh -c '
      : >%s/said; ./ridge launch -n 2 %s forever >%s/said 2>&1 & it=$!
      while [ "$(grep -c started %s/said)" != 2 ]; do sleep 0.1; done
      kill -STOP $(LD_PRELOAD= ps -o pid= --ppid $it)
      all=$(LD_PRELOAD= ps -eo pid,args | sed -n "s|^ *\\([0-9]*\\) [^ ]*ridge %s forever|\\1|p")
      kill -KILL $(echo $all | cut -d" " -f1)
      wait $it']]):format(folder, CHILD, folder, folder, CHILD))
    assert.equal(137, code, text)
    assert.matches('rank [01] was ended by signal 9\n', io.open(folder .. '/said'):read '*a')
    assert.equal(0, left 'forever')
    assert.equal('0\n', (output "LD_PRELOAD= ps -eo stat,args | grep -c '^T.*mpiru[n]'"))
  end)

  several('all end with their launcher, however it ends', function()
    for signal, status in pairs { INT = 130, KILL = 137 } do
      local text, code = output(([[sh -c '
        : >%s/said; ./ridge launch -n 2 %s forever >%s/said & it=$!
        while [ "$(grep -c started %s/said)" != 2 ]; do sleep 0.1; done
        kill -%s $it; wait $it']]):format(folder, CHILD, folder, folder, signal))
      assert.equal(status, code, text)
      if signal == 'INT' then assert.matches('interrupted: all ranks have ended', text) end
      while left 'forever' > 0 do os.execute 'sleep 0.1' end -- for ever, where one outlives it
    end
  end)

  it('are asked for in words that a launcher has', function()
    for _, each in ipairs { { '', 'the script is missing' }, { '-n 0 x.lua', '%-n' },
      { '-n 2 nowhere.lua', "there is no file 'nowhere.lua'" },
      { '--hosts a:0 x.lua', "'a:0' is no NAME or NAME:RANKS" },
      { '--hosts a,a x.lua', 'a stands twice' },
      { '-n 4 --hosts a:2,b x.lua', 'have room for 3 ranks, and %-n is 4' },
      { '-n 2 --min-ranks 3 x.lua', '%-%-min%-ranks is 3, and there are 2 ranks' },
      { '--ranks 2 x.lua', 'ranks' } } do
      local text, status = output('./ridge launch ' .. each[1])
      assert.equal(1, status)
      assert.matches('ridge launch: .*' .. each[2], text)
    end
    -- what only a launcher says
    for _, each in ipairs { { '' }, { 'a' }, { '127.0.0.1 0 3 true' }, { '127.0.0.1 1.5 3 true' },
      { '127.0.0.1 65536 3 true' }, { '127.0.0.1 a 3 true' }, { 'x 80 3 true' },
      { ', 80 3 true' }, { '127.0.0.1 80 3 true', 'xy' }, { '127.0.0.1 80 3 true', '' },
      { '127.0.0.1 80 0 true' }, { '127.0.0.1 80 nan true' }, { '127.0.0.1 80 3' } } do
      local said, how = output(("RIDGE_LAUNCH_SECRET='%s' ./ridge launch --keep %s"):format(
        each[2] or 'ab', each[1]))
      assert.equal(1, how)
      assert.equal('ridge launch: --keep is for what ridge launch itself starts in front of each '
        .. 'rank\n', said)
    end
    local text, status = output('PATH=/nowhere ./ridge launch ' .. CHILD)
    assert.equal(1, status)
    assert.matches("no mpirun on the PATH; Debian's openmpi%-bin has it", text)
  end)
end)
