!> What a Fortran program with `use mpi` writes.
program example
  use mpi
  use hcomp
  implicit none
  type(hcomp_plan) :: plan
  real :: x(1000)
  integer :: rank, ranks, ierror

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  x = rank

  call hcomp_plan_create(plan, MPI_COMM_WORLD, size(x), kind(x), "fp16")
  call hcomp_all_reduce(plan, x)
  call hcomp_plan_free(plan)

  if (rank == 0) print '(a, f0.1)', "sum of all ranks' numbers: ", x(1)
  call MPI_Finalize(ierror)
  if (any(x /= ranks * (ranks - 1) / 2)) error stop "the sum is wrong"
end program example
