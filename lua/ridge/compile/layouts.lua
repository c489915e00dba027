-- SPDX-License-Identifier: MIT
--- An alternative of single nodes: a convolution with channels first where the pass channels_last
--- would have them last, and the other way round. It is said before that pass, which finds its
--- regions anew: what hangs together with the node by images is changed with it where that spares
--- copies.

local C = require 'ridge.ffi.lib'
local alternative = require 'ridge.compile.alternative'
local call = require 'ridge.ffi.call'
local choices = require 'ridge.plan_choices'

local M = {}

M.PASS = 'channels_last'
M.FOUND = 'found' -- as the pass finds best
M.WISHES = { 'first', 'last' }

local LAYOUT = { first = C.RG_NCHW, last = C.RG_NHWC }

-- What a convolution is, for who looks for others like it.
local function kind_of(node)
  local args = node.args
  if node.op ~= 'conv2d' or node.parent or node.recomputed or args.layout ~= 'nchw' then
    return nil
  end
  return ('conv2d %s %s'):format(alternative.metas(node.inputs), alternative.words(args))
end

local its = alternative.of { choice = 'layout', heavy = 'flops', kind_of = kind_of }

M.kinds = its.kinds

--- A function that marks convolutions as `more` says, by kind, and as was found to be faster.
---@param more table|nil 'first' or 'last' by kind
---@return function of a graph
function M.marks(more)
  return function(graph)
    for _, node in ipairs(graph:nodes()) do
      local kind = kind_of(node)
      local wish = kind and (more and more[kind]
        or choices.get('layout', choices.problem(kind)))
      if LAYOUT[wish] then
        call.check(C.rg_graph_set_layout(graph._p, node.id, LAYOUT[wish]), 'compile')
      end
    end
  end
end

return M
