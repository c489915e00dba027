-- SPDX-License-Identifier: MIT
--- Ranks with a GPU each, by the stand-in for NCCL over simulated devices (tests/sim/fakenccl.cpp).
--- Skipped where MPI or the simulator is not.

local ranks = require 'tests.lua.dist.ranks'
local ridge = require 'ridge'

local CHILD = 'tests/lua/dist/nccl_child.lua'
local SIMULATOR, FAKE = 'build/libridge_gpusim.so', 'build/libfakenccl.so'
local BASE = ('RIDGE_GPU=$PWD/%s RG_SIM_DEVICES=4 RIDGE_NCCL=$PWD/%s '):format(SIMULATOR, FAKE)

local function there(path)
  local file = io.open(path, 'rb')
  if file then file:close() end
  return file ~= nil
end

local function several(name, f)
  if not there(SIMULATOR) or not there(FAKE) then
    return pending(name .. ' (the simulated GPU was not built)', function() end)
  end
  ranks.several({ it = it, pending = pending }, name, f)
end

local function launch(n, env, what, folder, options)
  return ranks.output(('%s %s ./ridge launch -n %d %s %s %s %s'):format(BASE, env, n, options or '',
    CHILD, what, folder or ''))
end

local ORDERS = { 'fwd', 'rev', 'rand:1', 'rand:2', 'ahead:rev' }

describe('ranks with a GPU each', function()
  local folder

  setup(function() folder = ranks.output 'mktemp -d':match '[^\n]+' end)
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

  for _, order in ipairs(ORDERS) do
    several('do each collective with each type, in the order ' .. order, function()
      for _, n in ipairs { 2, 4 } do
        local text, status = launch(n, 'RG_SIM_ORDER=' .. order, 'collectives')
        assert.equal(0, status, text)
        assert.equal(n, ranks.lines(text, '%] collectives ' .. n .. ' auto$'), text)
        assert.is_nil(text:find 'fakenccl:', text)
      end
    end)
  end

  several('compute means of half types in f32', function()
    local text, status = launch(3, '', 'rounded')
    assert.equal(0, status, text)
    for dtype, most in pairs { f16 = 2 ^ -10, bf16 = 2 ^ -7 } do -- a share and a sum are rounded
      local off = tonumber(text:match('%[0%] rounded ' .. dtype .. ' (%S+)'))
      assert.is_true(off <= most, text)
    end
  end)

  several('train as one does on the whole batch, in the same bits on all', function()
    local text, status = ranks.output(('RIDGE_GPU=$PWD/%s ./ridge launch -n 1 %s train %s'):format(
      SIMULATOR, CHILD, folder))
    assert.equal(0, status, text)
    for _, order in ipairs { 'fwd', 'rev', 'rand:3' } do
      for _, n in ipairs { 2, 4 } do
        text, status = launch(n, 'RG_SIM_ORDER=' .. order, 'train', folder)
        assert.equal(0, status, text)
        for _, name in ipairs { 'mlp', 'buckets', 'behind' } do
          assert.equal(n, ranks.lines(text, '%] ' .. name .. ' true'), text)
          assert.is_true(apart(saved(name, n), saved('mlp', 1)) <= 1e-5)
        end
        assert.equal(0, apart(saved('buckets', n), saved('behind', n)))
      end
    end
  end)

  several('train in bf16 messages, with batch normalisation of all, and sharded', function()
    ranks.output(('RIDGE_GPU=$PWD/%s ./ridge launch -n 1 %s more %s'):format(SIMULATOR, CHILD,
      folder))
    local text, status = launch(2, 'RG_SIM_ORDER=rand:5', 'more', folder, '--backend nccl')
    assert.equal(0, status, text)
    assert.equal(2, ranks.lines(text, '%] bf16 true'), text)
    assert.equal(2, ranks.lines(text, '%] norm true'), text)
    assert.is_true(apart(saved('norm', 2), saved('norm', 1)) <= 1e-5)
    local off = apart(saved('bf16', 2), saved('bf16', 1))
    assert.is_true(off < 0.05)
    text, status = launch(2, 'RG_SIM_ORDER=rev', 'sharded')
    assert.equal(0, status, text)
    assert.equal(2, ranks.lines(text, '%] sharded true'), text)
    text, status = launch(4, 'RG_SIM_ORDER=rand:6', 'weights')
    assert.equal(0, status, text)
    assert.equal(4, ranks.lines(text, '%] weights true'), text)
  end)

  several('are told of a rank that is lost behind the point where all had come', function()
    for what, said in pairs {
      ['RG_NCCL_LOST=1:3'] = 'all ranks have come to collective 5 .all_reduce, sum of 4 f32.*, and '
        .. 'it has not ended within 2 s',
      ['RG_NCCL_GONE=1:3'] = 'NCCL says: remote process exited',
    } do
      local text = launch(2, what, 'lost')
      assert.matches('%] first false [^\n]*' .. said, text)
      assert.matches('%[0%] first false [^\n]* true', text)
      assert.matches('%[0%] read false [^\n]*what is on the device depends on it', text)
      assert.matches('%[0%] next false', text)
    end
  end)

  several('name a rank that never comes', function()
    local text = launch(3, '', 'never')
    assert.matches('%[0%] never false [^\n]*rank 1 has not come to collective %d+ .all_reduce, sum '
      .. 'of 4 f32.*within 2 s', text)
  end)

  several('end with one that is killed', function()
    local begun = os.time()
    local text, status = launch(2, '', 'killed')
    assert.is_true(status ~= 0, text)
    assert.is_true(os.time() - begun < 40, text)
    assert.equal(0, ranks.left(CHILD .. ' killed'))
  end)

  several('refuse what cannot be', function()
    local text, status = launch(2, 'RIDGE_NCCL=none', 'refused')
    assert.equal(0, status, text)
    assert.equal(2, ranks.lines(text, '%] refused false dist.all_reduce: this tensor is on '
      .. 'sim:[01], and ranks cannot exchange what is there: NCCL is not used: RIDGE_NCCL says '
      .. "none. x:to 'cpu' goes by MPI"), text)
    assert.equal(2, ranks.lines(text, '%] refused false dist.DataParallel: this tensor is'), text)
    assert.equal(2, ranks.lines(text, '%] sum 4'), text)
    text = launch(2, '', 'refused', '', '--backend mpi')
    assert.equal(4, ranks.lines(text, '%] refused false [^\n]*messages are MPI\'s alone'), text)
    text, status = launch(2, 'RIDGE_NCCL=none', 'refused', '', '--backend nccl')
    assert.matches("'nccl' cannot be used: NCCL is not used: RIDGE_NCCL says none", text)
    assert.is_true(status ~= 0)
    text = launch(2, 'RG_NCCL_VERSION=21304', 'refused')
    assert.matches('NCCL is not used: it is of version 21304, wanted 21400', text)
    text = launch(2, 'RIDGE_NCCL=/no/such.so', 'refused')
    assert.matches('NCCL is not there: /no/such.so: cannot open', text)
    text = launch(2, '', 'one')
    assert.equal(2, ranks.lines(text, '%] one false [^\n]*ranks 0 and 1 have their tensors on one '
      .. 'GPU .simulated%-0., and NCCL wants one for each rank'), text)
    text = launch(2, '', 'differ')
    assert.matches('%[0%] differ false [^\n]*collective %d+ is of memory of the CPU on rank 1 and '
      .. 'of a GPU here', text)
    text = launch(2, '', 'two')
    assert.equal(2, ranks.lines(text, '%] two false [^\n]*a rank has one GPU'), text)
  end)

  several('say what the library says', function()
    for what, said in pairs {
      ['RG_NCCL_REFUSE=AllReduce:1'] = 'all_reduce: NCCL says: unhandled cuda error',
      ['RG_NCCL_REFUSE=CommInitRankConfig:2'] =
        'joining the communicator: NCCL says: unhandled system error',
      ['RG_NCCL_REFUSE=GetUniqueId:3'] = 'rank 0 cannot exchange what is on its GPU: dist: the id '
        .. 'of a communicator: NCCL says: internal error',
    } do
      local text = launch(2, what, 'lost')
      assert.equal(2, ranks.lines(text, '%] first false [^\n]*' .. said), text)
    end
  end)
end)
