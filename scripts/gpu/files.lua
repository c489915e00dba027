-- SPDX-License-Identifier: MIT
--- Which operations each file of kernels is for, so that scripts/gpu-check can run each file's in a
--- process of its own: a fault in one then says nothing of the others.
--
--     ./ridge scripts/gpu/files.lua     a line each: FILES OPERATION,OPERATION,...

local FILES = {
  { 'copy.cu', 'fill,arange,copy,cast,expand_signs' },
  { 'elementwise.cu', 'elements' }, -- functions of one and two elements: all that no other names
  { 'product.cu+blas/fit.cu+blas/blas.cu', 'matmul,linear,linear_dropout,lowrank_linear' },
  { 'sketch.cu+gemm_mma.cu', 'sketched_linear,sketched_linear_bits,sketched_linear_seed' },
  { 'attention.cu+attention_mma.cu+attention_mma_back.cu',
    'attention,attention_back,attention_dropout,attention_dropout_back' },
  { 'norm.cu+norm_back.cu', 'layer_norm,layer_norm_back' },
  { 'softmax.cu', 'softmax,softmax_back' },
  { 'reduce.cu', 'sum,mean,prod,max,min,norm' },
  { 'cumsum.cu', 'cumsum' },
  { 'loss.cu', 'cross_entropy,cross_entropy_back' },
  { 'step.cu', 'sgd_step,adam_step,lion_step' },
  { 'random.cu', 'uniform,normal,signs,randint,dropout,dropout_back,sign_bits' },
  { 'take.cu', 'take,take_back' },
  { 'where.cu', 'where' },
  { 'parts.cu', 'argmax,argmin,concat,act_back' },
  { 'scaled.cu+scaled_mma.cu+scaled_blas.cu', 'scaled_linear' },
  { 'image.cu', 'conv2d,conv2d_back_data,conv2d_back_weight' },
  { 'pool.cu+pool_lines.cu', 'max_pool2d,max_pool2d_back,avg_pool2d,avg_pool2d_back' },
  { 'total.cu', 'total_norm' },
  { 'all_reduce.cu', 'all_reduce' },
  { 'svd.cu', 'svd' },
}

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'

local named = {}
for _, file in ipairs(FILES) do
  for op in file[2]:gmatch '[^,]+' do named[op] = true end
end
local elements, facts = {}, ffi.new 'rg_op_facts'
for i = 0, C.rg_op_count() - 1 do
  local name = C.rg_op_facts_of(i, facts) == 0 and ffi.string(facts.name)
  if name and not named[name] then elements[#elements + 1] = name end
end
for _, file in ipairs(FILES) do
  print(file[1] .. ' ' .. (file[2] == 'elements' and table.concat(elements, ',') or file[2]))
end
