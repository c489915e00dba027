-- SPDX-License-Identifier: MIT
--- Ranks that are killed at random moments of a training, which ridge launch starts again: do the
--- weights have the bits of a training that nobody disturbed?
---   ridge scripts/random_kills.lua [--moments 50] [--ranks 2] [--seed 1]
-- Every fifth is stopped instead (SIGSTOP), which the others notice. Moments lie behind the first
-- checkpoint; one at which all has ended is drawn again.

local ridge = require 'ridge'

local opt = ridge.args {
  { 'moments', 50, 'how many', min = 1, integer = true },
  { 'ranks', 2, 'processes', min = 2, integer = true },
  { 'epochs', 150, 'of 203 rows; a checkpoint behind each', min = 1, integer = true },
  { 'seed', 1, 'of the moments' },
}

local CHILD = 'tests/lua/dist/restart_child.lua'
local FOLDER = io.popen('mktemp -d'):read '*l'

local function start(folder, epochs)
  os.execute('mkdir ' .. folder)
  local command = ('./ridge launch -n %d --restarts 3 --wait 0.05 --silence 3 %s %s %d "" 3')
    :format(opt.ranks, CHILD, folder, epochs or opt.epochs)
  return io.popen(('%s 2>&1; echo "status $?"'):format(command))
end

local function ended(pipe)
  local text = pipe:read '*a'
  pipe:close()
  return text, text:match 'end after %d+ steps.-bits (%x+)', tonumber(text:match 'status (%d+)')
end

local function ranks(folder)
  local list = {}
  local pipe = io.popen 'ps -eo pid,args'
  for text in pipe:lines() do
    local pid, args = text:match '^%s*(%d+) (.*)$'
    if pid and args:find('^%S*ridge ' .. CHILD:gsub('%p', '%%%0') .. ' '
        .. folder:gsub('%p', '%%%0')) then
      list[#list + 1] = pid
    end
  end
  pipe:close()
  return list
end

local begun = ridge.clock()
ended(start(FOLDER .. '/short', 1))
local starts = ridge.clock() - begun -- until ranks have begun, and ended
begun = ridge.clock()
local _, wanted = ended(start(FOLDER .. '/whole'))
local whole = ridge.clock() - begun
print(('undisturbed: %.1f s, of one epoch %.1f s, bits %s'):format(whole, starts, wanted))

local draws, i, redrawn, wrong = ridge.generator(opt.seed), 0, 0, 0
local function draw() return ridge.rand(1, { generator = draws }):item() end
while i < opt.moments do
  local folder = ('%s/%d.%d'):format(FOLDER, i, redrawn)
  local signal = i % 5 == 4 and 'STOP' or 'KILL'
  local pipe = start(folder)
  local at = draw() * (whole - starts)
  os.execute(('until test -e %s/checkpoint.safetensors; do sleep 0.01; done; sleep %.3f'):format(
    folder, at))
  local list = ranks(folder)
  local which = list[1 + math.floor(draw() * #list)]
  if which then os.execute(('kill -%s %s 2>/dev/null'):format(signal, which)) end
  local text, bits, status = ended(pipe)
  local again = text:match 'restart %d of 3'
  if again then
    i = i + 1
    local ok = bits == wanted and status == 0 and #ranks(folder) == 0
    wrong = wrong + (ok and 0 or 1)
    print(('%2d  SIG%s %.2f s behind the first checkpoint  went on at epoch %s of %d  %s')
      :format(i, signal, at,
      text:match 'start 1 of %d+ ranks at epoch (%d+)' or '?', opt.epochs,
      ok and 'same bits' or 'WRONG:\n' .. text))
  else
    redrawn = redrawn + 1
    if bits ~= wanted or status ~= 0 then
      wrong = wrong + 1
      print('WRONG:\n' .. text)
    end
  end
end
print(('%d moments, %d drawn again (all had ended); %d wrong'):format(i,
  redrawn, wrong))
os.execute('rm -rf ' .. FOLDER)
os.exit(wrong == 0 and 0 or 1)
