-- SPDX-License-Identifier: MIT
-- Every tutorial and every how-to, run by somebody who has an empty home, `ridge` on the path and
-- the page: the first hour in an empty folder, the others in the folder that it leaves.

local blocks = dofile 'tests/lua/docs/blocks.lua'

local ROOT = io.popen('pwd'):read '*l'

local function read(path)
  local file = assert(io.open(path))
  local text = file:read '*a'
  file:close()
  return text
end

local function pages_of(kind)
  local list, pipe = {}, io.popen('ls docs/' .. kind .. '/*.md')
  for path in pipe:lines() do list[#list + 1] = path end
  pipe:close()
  return list
end

describe('the page', function()
  local folder, account
  setup(function()
    folder = blocks.folder.new()
    account = blocks.account(folder, ROOT .. '/build/ridge')
  end)
  teardown(function() blocks.folder.remove(folder) end)

  local function run(path, inside)
    local list = blocks.read(read(path))
    blocks.run({ folder = folder, inside = inside or account.inside }, list)
    local wrong = blocks.all_wrong(list)
    assert.is_true(#wrong == 0, path .. ':\n' .. table.concat(wrong, '\n\n'))
    return list
  end

  it('docs/tutorial/first-hour.md prints what it shows', function()
    account.inside = 'first' -- afterwards
    run('docs/tutorial/first-hour.md', '.')
    local map = read(folder .. '/work/first/widths-map.png')
    assert.equal('\137PNG', map:sub(1, 4))
    assert.is_true(#map > 20000)
  end)

  for _, kind in ipairs { 'tutorial', 'howto' } do
    for _, path in ipairs(pages_of(kind)) do
      local several = path == 'docs/howto/many-processes.md' or path == 'docs/howto/scaling.md'
      if several and not io.open 'build/libridge_mpi.so' then
        pending(path .. ' (no Open MPI when ridge was built: scripts/deps mpi)', function() end)
      elseif path ~= 'docs/tutorial/first-hour.md' then
        it(path .. ' prints what it shows', function() run(path) end)
      end
    end
  end

  it('of each kind has few blocks that are for another machine', function()
    local left = {}
    for _, kind in ipairs { 'tutorial', 'howto' } do
      for _, path in ipairs(pages_of(kind)) do
        for _, block in ipairs(blocks.read(read(path))) do
          if block.kind == 'elsewhere' then left[#left + 1] = path:match '([%w-]+)%.md$' end
        end
      end
    end
    assert.same({ 'first-hour', 'gpu', 'grade-d' }, left)
  end)
end)
